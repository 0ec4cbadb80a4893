// Package verbs carries the bytes of a job over RDMA verbs, in a protocol of its own:
// Connect makes a link.Link of the devices that face each other. What MLX's JACCL sends
// over the same devices is package mesh.
//
// Data that lies in memory of Lease is sent and received there, at any byte, without a
// copy; sessions work in such memory. Data in other memory is copied through buffers of
// the link.
package verbs
