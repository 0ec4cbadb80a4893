// Package memory says how much memory this process can still take. With it, a program that
// is too large is refused with an error before it takes the memory: Go cannot recover when
// memory runs out.
//
// Begin with Available.
package memory
