// Package jaccltest tests implementations of the interfaces of packages jaccl and link,
// as testing/fstest tests file systems.
//
// Conformance specifies every jaccl.Communicator, over any transport: results bit for
// bit, buffers belonging to the caller again, groups that do not disturb each other, and
// errors naming the rank at fault. With a Far for every rank, Conformance tests ranks in
// different processes, which run Serve. PlayRank tests one rank that is connected to the
// others by nothing but its communicator. WorldConformance is for transports with fewer
// operations and no groups. LinkConformance specifies every link.Link.
//
// Links, SharedLinks, Sites and Watches connect ranks of one process, for tests of code
// using links, sites and watches.
package jaccltest
