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
// engine.Connect and its Watch end; a rank that closes its link says so in a message
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
// Buffers are the caller's own, and lie in Go's heap, which does not move them. UCX
// keeps what it has registered with an InfiniBand device, and does not learn of
// memory that Go's runtime gives back to the system: turn that off there with
// UCX_RCACHE_ENABLE=n and UCX_IB_REG_METHODS=direct. Shared memory and TCP register
// nothing.
//
// Some MPIs write a message that is longer than its receive past the buffer, and some
// cut it without a word. So every head says how much follows, and data is received
// only if that is what is expected.
//
// # Signals
//
// UCX and MPICH replace handlers of Go's runtime, after which a nil dereference ends
// the process instead of panicking. Open puts the handlers back.
package mpi
