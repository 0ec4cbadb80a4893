// Package memory determines the memory still available to this process. With it, a
// program that is too large is refused with an error before allocating: Go cannot recover
// from running out of memory.
//
// Begin with Available.
package memory
