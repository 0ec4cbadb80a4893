// Package mpi connects ranks by an installed MPI: Open MPI, or MPICH and libraries with
// its ABI (Intel MPI, MVAPICH). It is bound without cgo, when Open is called. mpirun,
// mpiexec or srun start the ranks; MPI assigns the ranks and carries the data, over any
// network of the cluster.
//
// # Failures
//
// MPI carries data well and reports failures badly: with most builds a peer that was
// killed, stopped or cut off is never reported, and MPI waits for ever. So this package
// never waits inside MPI. An Exchange polls and ends with its context, which the deadline
// of engine.Connect and its Watch end; a rank closing its link sends a message. MPI's
// errors are returned, with MPI's text, and abort nothing (MPI_ERRORS_RETURN). With a
// build of Open MPI 5 started as mpirun --with-ft ulfm they name a dead peer within
// milliseconds.
//
// Buffers that MPI still holds after a failed exchange cannot be taken back in general.
// They are kept from the garbage collector for ever; their contents are undefined.
// World.Close calls MPI_Finalize if all ranks call it and nothing has failed. Otherwise
// it does not, because MPI_Finalize would wait for the missing ranks for ever: the
// process has to end, and then its launcher ends the others. This package does not call
// MPI_Abort, which ends all processes at once; that is the launcher's task.
//
// # Memory
//
// Buffers are the caller's own, in Go's heap, which does not move them. UCX caches its
// registrations of memory with InfiniBand devices, and does not notice when Go's runtime
// returns memory to the system. So Open turns that cache off, with UCX_RCACHE_ENABLE=n
// and UCX_IB_REG_METHODS=direct, and refuses other values of these variables. Shared
// memory and TCP register nothing.
//
// If a message is longer than its receive, some MPIs write past the buffer, and some
// truncate the message silently. So every head has the number of bytes following, and
// data is received only if that number is as expected.
//
// # Signals
//
// UCX and MPICH replace handlers of Go's runtime, after which a nil dereference ends the
// process instead of panicking. Open puts the handlers back.
package mpi
