// Package verbs carries the bytes of a job over RDMA verbs, in a protocol of its own. Begin
// with Connect, which returns a link.Link over the devices that face each other. Package
// mesh speaks the protocol of MLX's JACCL over the same devices.
//
// Data in memory of Lease is sent and received without a copy, wherever in that memory it
// begins; sessions work in such memory. Data in other memory is copied through buffers of
// the link.
package verbs
