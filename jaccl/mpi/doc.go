// Package mpi connects ranks by an installed MPI: Open MPI, or MPICH and what shares
// its ABI (Intel MPI, MVAPICH). It is bound without cgo, when Open is called.
// mpirun, mpiexec or srun start the ranks; MPI tells each its rank and carries the
// data, over whatever the cluster has.
//
// # Failures
//
// MPI carries data well and failures badly: with most builds a peer that was killed,
// stopped or cut off is never reported, MPI waits. So nothing here waits inside
// MPI. An Exchange polls and ends with its context, which the deadline of
// jaccl.Connect and its Watch end; a rank that closes its link says so in a message
// of its own. MPI's own errors are returned, with its text, and abort nothing
// (MPI_ERRORS_RETURN). With a build of Open MPI 5 started as mpirun --with-ft ulfm
// they name a dead peer within milliseconds.
//
// What MPI still holds after a failed exchange can not be taken back in general. Such
// buffers are never given to the garbage collector again; their contents are
// undefined. World.Close calls MPI_Finalize when all ranks come to it and nothing
// has failed. Otherwise it does not, since MPI_Finalize would wait for the missing
// for ever: the process is to end, upon which its launcher ends the others.
// Ending all at once, MPI_Abort, is the launcher's business.
//
// # Memory
//
// Buffers are the caller's own, and lie in Go's heap, which does not move them. The
// registration cache of UCX does not learn of what Go's runtime gives back to the
// system, so that on InfiniBand with UCX it is to be off: UCX_RCACHE_ENABLE=n
// (UCX 1.14 and later), or UCX_IB_RCACHE_... of the older ones; shared memory and
// TCP have no such cache.
//
// # Signals
//
// UCX and MPICH replace handlers of Go's runtime, after which a nil dereference ends
// the process instead of panicking. Open puts the handlers back.
package mpi
