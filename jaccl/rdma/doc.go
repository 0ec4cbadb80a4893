// Package rdma sends and receives through RDMA devices by the verbs that they have in
// common: Thunderbolt 5 between Macs, or the adapters of a cluster. The library,
// librdma.dylib or libibverbs.so.1, is called through purego, so there is no cgo. It
// stays loaded when its last user has closed.
//
// An Endpoint is a queue pair that faces one peer. Thunderbolt's queue pairs are of the
// kind UC and lose nothing, since a message waits for its buffer; those of ordinary
// adapters are of the kind RC, which sends again. Both sides post buffers of lengths that
// both know. A device has few queue pairs and memory regions; an endpoint takes one of
// the former and two of the latter. Nothing is received that was not asked for, and every
// completion's status is looked at.
//
// Drive waits by polling: in a burst, then with the processor offered to others, then with
// sleeps of at most half a millisecond.
//
// Whatever the library or a device reads or writes lies in memory that is mapped outside
// of the Go heap.
package rdma
