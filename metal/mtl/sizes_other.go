//go:build !amd64

package mtl

import "unsafe"

// pass puts two MTLSize into the frame, by value, and returns how many arguments that
// makes. The procedure call standard of arm64 passes structures of more than two words
// as the address of a copy, which is the callee's to change: so they are written anew
// each time.
func (e *Compute) pass(a, b [3]int) int {
	for i := range 3 {
		e.sizes[i], e.sizes[3+i] = uintptr(a[i]), uintptr(b[i])
	}
	e.frame[2] = uintptr(unsafe.Pointer(&e.sizes[0])) // e is on the heap, and send keeps it
	e.frame[3] = uintptr(unsafe.Pointer(&e.sizes[3]))
	return 2
}
