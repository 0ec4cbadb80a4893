// Package jaccltest tests what package jaccl declares, as testing/fstest tests file
// systems.
//
// Conformance states what every jaccl.Communicator does, whatever carries its data:
// results bit for bit, buffers that belong to the caller again, groups that do not
// disturb each other, and errors that name the rank at fault. PlayRank is its part for
// one rank in a process of its own. LinkConformance states what every jaccl.Link does.
//
// Links, SharedLinks, Sites and Watches connect ranks of one process, for tests of what
// is made of them.
package jaccltest
