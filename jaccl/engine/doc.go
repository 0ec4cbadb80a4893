// Package engine makes the collectives of package jaccl.
//
// Local connects ranks that are goroutines of one process. Its collectives are
// rendezvous: a member posts its call and its buffers and waits; when the last
// member has posted, the calls are compared, and then every member does its
// share of the work straight on the buffers of its peers. So nothing is copied
// twice, no goroutine runs in the background, and a call that does not fit the
// others is an error on every member before any data moves.
//
// Connect makes the same of a link.Link, which carries bytes between processes, and a
// link.Watch, which tells them of each other's failures. Every member sends every other a
// head that says what it calls, and then its data; it judges the heads of all before
// it takes anything. Small sums have everybody send everything to everybody; larger
// ones are reduced in segments, one by each member, whose results travel with what is
// to be reduced next. Ranks that share memory, and have their buffers in it, send
// heads alone and work on each other's buffers in place.
//
// Sums add in the order of the group's ranks and every element is summed once, by one
// member, or alike by all, so that all members hold the same bits, on every link.
//
// Until the last member arrives, a member may leave: its context ends, the deadline
// passes, a peer fails or closes. Whoever leaves poisons the job, because the others
// cannot complete the operation without it. Among goroutines the operation always
// completes from then on, which takes no longer than its memory traffic. Over a link
// it may still fail while data is on its way; what dst holds then is undefined. No
// member returns without an error before all have finished with its buffers.
//
// Begin with Local. Connect is called by package world; docs/add-a-transport.md calls it for
// a transport of its own.
package engine
