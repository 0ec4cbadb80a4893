// Package engine implements the collectives of package jaccl. Begin with Local.
//
// Local connects ranks that are goroutines of one process. Its collectives are
// rendezvous: a member posts its call and its buffers and waits; when the last member has
// posted, the calls are compared, and then every member does its share of the work
// directly on the buffers of its peers. So nothing is copied twice, no goroutine runs in
// the background, and a call that does not fit the others is an error on every member
// before any data moves.
//
// Connect does the same over a link.Link, which carries bytes between processes, and a
// link.Watch, which tells them of each other's failures. Every member sends every other
// member a head, which describes its call, and then its data; it compares the heads of
// all members before accepting any data. For a small sum every member sends everything to
// every other member. A larger sum is reduced in segments, one by each member; the
// results of one block travel together with the data of the next. Ranks that share
// memory, and have their buffers in it, send heads alone and work on each other's buffers
// in place.
//
// A sum adds in the order of the group's ranks. Every element is summed by one member
// alone, or by every member in the same way, so that all members hold the same bits, on
// every link.
//
// Until the last member arrives, a member may leave: its context ends, the deadline
// passes, a peer fails or closes. A member that leaves poisons the job, because the
// others cannot complete the operation without it. After the last member has arrived, an
// operation among goroutines always completes, and takes no longer than its memory
// traffic. Over a link it may still fail while data is on its way; the contents of dst
// are then undefined. A member with a successful operation does not return before all
// members have finished with its buffers.
//
// Package world calls Connect; docs/extending.md shows how to call it for a transport of
// your own.
package engine
