// Package exec is the environment of kernels: their arguments, and the threads and memory
// that they share.
//
// To write a Kernel, begin with Args: In and Out are arrays, and Threads is the number of
// goroutines that the kernel may keep busy. Work worth more than one goroutine is a type
// with a method Piece. The call
//
//	exec.Share(a, n, grain, myWork{...})
//
// divides 0 to n among the helpers of the Crew, which all ranks of a process share.
// Memory in addition to arguments and results comes from Make (a slice of numbers), New
// (one object) and RoomsOf (one slice for each piece of a Work). It belongs to the kernel
// until the kernel returns, so a step allocates nothing. An error that all ranks return
// alike is an AgreedError. NewChain combines several elementwise kernels. Dry counts the
// memory used by kernels, by running them without elements.
//
// An Exchange is the kernel of a collective: it calls its collective.Group once.
//
// The package knows neither plans nor devices: package lowering decides on the
// instructions and their order, package runtime runs them.
package exec
