// Package exec is what runs inside a step: kernels, what they are given, and how they
// share work and memory.
//
// To write a Kernel, begin with Args: In and Out are arrays, and Threads says how many
// goroutines the kernel may keep busy. Work that is worth more than one goroutine is a
// type with a method Piece. The call
//
//	exec.Share(a, n, grain, myWork{...})
//
// divides 0 to n among the helpers of the Crew, which all ranks of a process share. Memory
// beside arguments and results comes from Make (a slice of numbers), New (one object) and
// RoomsOf (one part for each piece of a Work). It belongs to the kernel until the kernel
// returns, so that a step allocates nothing. An error that all ranks return alike is an
// AgreedError. NewChain makes one kernel of several elementwise kernels. Dry counts the memory
// that kernels take, by running them without elements.
//
// An Exchange is the kernel of a collective: it calls its collective.Group once.
//
// The package knows neither plans nor devices: package lowering decides what runs and in
// which order, package runtime runs it.
package exec
