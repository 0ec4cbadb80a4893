// Package verbs carries the bytes of a job over RDMA verbs, in a protocol of its own:
// Connect makes a link.Link of the devices that face each other. What MLX's JACCL sends
// over the same devices is package mesh.
//
// Data goes through buffers of the link, through which other memory is copied, or as it
// is, from any byte of what Lease has lent. There sessions work.
package verbs
