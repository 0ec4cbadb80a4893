// Package mesh takes part in a job of JACCL, which is MLX's implementation of collectives
// over RDMA verbs. The other ranks may be processes of MLX: the package speaks the
// protocol of JACCL's mesh, as package ring speaks the protocol of MLX's ring. If all
// ranks are Go programs, the link of package verbs gives them more operations, and groups
// of some ranks. Begin with Connect.
//
// The mesh has no watch (package watch), because MLX's ranks have none. A rank learns
// about the others from JACCL's side channel, which connects rank 0 with each other rank
// and stays open: rank 0 sees when a connection ends, and tells the ranks of this
// package.
package mesh
