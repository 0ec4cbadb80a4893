// Package memory says how much memory this process can still take, so that what is too
// large is refused with an error before the memory is taken: Go cannot recover from memory
// that runs out.
//
// Begin with Available.
package memory
