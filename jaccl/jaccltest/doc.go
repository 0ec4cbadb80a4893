// Package jaccltest tests implementations of the interfaces of packages jaccl and link, as
// testing/fstest tests file systems.
//
// Conformance states what every jaccl.Communicator does, whatever carries its data:
// results bit for bit, buffers that belong to the caller again, groups that do not
// disturb each other, and errors that name the rank at fault. With a Far for every rank,
// Conformance tests ranks in processes of their own, which run Serve. PlayRank tests one
// rank that is connected to the others by nothing but its communicator. WorldConformance is
// for transports that have fewer operations and no groups. LinkConformance states what
// every link.Link does.
//
// Links, SharedLinks, Sites and Watches connect ranks of one process, for tests of what
// uses links, sites and watches.
package jaccltest
