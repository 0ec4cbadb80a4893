// Package mesh takes part in a job of JACCL, MLX's collectives over RDMA verbs, whose other
// ranks may be MLX's processes: it speaks the protocol of JACCL's mesh, as package ring
// speaks that of MLX's ring. Ranks that are all Go have more operations, and groups of some
// ranks, with the link of package verbs.
package mesh
