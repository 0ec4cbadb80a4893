// Package jaccl runs collectives among the ranks of a job.
//
// Local connects ranks that are goroutines of one process. Its collectives are
// rendezvous: a member posts its call and its buffers and waits; when the last
// member has posted, the calls are compared, and then every member does its
// share of the work straight on the buffers of its peers. So nothing is copied
// twice, no goroutine runs in the background, and a call that does not fit the
// others is an error on every member before any data moves.
//
// Sums add in the order of the group's ranks and every element is summed once,
// by one member, so that all members hold the same bits.
//
// An operation has two parts. Until the last member arrives, a member may leave:
// its context ends, the deadline passes, a peer fails or closes. Whoever leaves
// poisons the job, because the others can not complete the operation without it.
// From then on the operation always completes, which takes no longer than its
// memory traffic, and no member returns before all have finished with its
// buffers.
package jaccl
