// Package mesh takes part in a job of JACCL, MLX's collectives over RDMA verbs, whose other
// ranks may be MLX's processes: it speaks the protocol of JACCL's mesh, as package ring
// speaks that of MLX's ring. Ranks that are all Go have more operations, and groups of some
// ranks, with the link of package verbs.
//
// There is no watch (package watch) beside the mesh: MLX's ranks have none. What a rank
// knows of others comes from JACCL's side channel, which connects rank 0 with each other
// rank and stays open: rank 0 sees where it ends, and tells the ranks of this package.
package mesh
