// Package rdma carries the bytes of a job over RDMA verbs: Thunderbolt 5 between Macs,
// as MLX's JACCL does, or the adapters of a cluster. The library, librdma.dylib or
// libibverbs.so.1, is called through purego, so there is no cgo.
//
// Connect makes a link.Link of the devices that face each other. Interop takes part in
// a job of JACCL itself, whose other ranks may be MLX's processes.
//
// Thunderbolt's queue pairs are of the kind UC and lose nothing, since a message waits
// for its buffer; those of ordinary adapters are of the kind RC, which sends again. Both
// sides post buffers of lengths that both know. A device has few queue pairs and memory
// regions; an endpoint takes one of the former and two of the latter. Nothing is
// received that was not asked for, and every completion's status is looked at.
//
// Waiting is polling: in a burst, then with the processor offered to others, then with
// sleeps of at most half a millisecond.
//
// Whatever the library or a device reads or writes lies in memory that is mapped
// outside of the Go heap: in buffers of the link, through which other memory is copied, or
// in what Lease has lent, from any byte of which data goes as it is. There sessions work.
// The library stays loaded when its last user has closed.
package verbs
