// Package rdma sends and receives through RDMA devices: Thunderbolt 5 between Macs, or
// the adapters of a cluster. It uses the verbs that both have. The verbs library,
// librdma.dylib or libibverbs.so.1, is called through purego, so there is no cgo. The
// library stays loaded when its last user has closed. Package rdma is for transports;
// programs use packages verbs and mesh, which are built on it. Begin with OpenLibrary and
// NewEndpoint.
//
// An Endpoint is a queue pair that faces one peer. Thunderbolt's queue pairs are of the
// kind UC and lose nothing, because a message waits for its buffer. Ordinary adapters'
// queue pairs are of the kind RC, which sends lost messages again. Both sides post
// buffers of lengths that both know. A device has few queue pairs and memory regions: an
// endpoint takes one queue pair and two memory regions. Nothing is received without a
// posted buffer, and the status of every completion is checked.
//
// Drive waits by polling: first in a burst, then offering the processor to other
// processes between polls, then with sleeps of at most half a millisecond.
//
// All memory that the library or a device reads or writes is mapped outside of the Go
// heap.
package rdma
