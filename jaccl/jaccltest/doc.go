// Package jaccltest tests what package jaccl declares, as testing/fstest tests file
// systems.
//
// Conformance states what every jaccl.Communicator does, whatever carries its data:
// results bit for bit, buffers that belong to the caller again, groups that do not
// disturb each other, and errors that name the rank at fault. With a Far for every rank,
// the ranks are in processes of their own, which run Serve. PlayRank is its part for one
// rank that nothing but its communicator connects to the others. WorldConformance is for
// transports that have less. LinkConformance states what every link.Link does.
//
// Links, SharedLinks, Sites and Watches connect ranks of one process, for tests of what
// is made of them.
package jaccltest
