// Package exec is what runs inside a step: kernels, what they are given, and how they
// share work and memory.
//
// To write a Kernel, begin with Args: In and Out are arrays, and Threads says how many
// goroutines may be kept busy. Work that is worth more than one is a type with a method
// Piece, and
//
//	exec.Share(a, n, grain, myWork{...})
//
// has it done for 0 to n by the helpers of the Crew, which all ranks of a process have in
// common. Memory beside arguments and results comes from Make (a slice of numbers), New
// (one object) and RoomsOf (some for each piece of a Work); it belongs to the kernel until
// it returns, so that a step allocates nothing. An error that all ranks come to alike is
// Agreed. NewChain makes one kernel of several elementwise ones.
//
// An Exchange is the kernel of a collective: it calls its collective.Group once.
//
// The package knows neither plans nor devices: package lowering decides what runs and in
// which order, package runtime runs it.
package exec
