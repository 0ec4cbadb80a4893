//go:build !amd64

package mtl

import "unsafe"

// pass puts two MTLSize into the frame, by value, and returns the number of arguments. The
// procedure call standard of arm64 passes a structure of more than two words as the address of a
// copy. The callee may change the copy, so it is rewritten for each call.
func (e *Compute) pass(a, b [3]int) int {
	for i := range 3 {
		e.sizes[i], e.sizes[3+i] = uintptr(a[i]), uintptr(b[i])
	}
	e.frame[2] = uintptr(unsafe.Pointer(&e.sizes[0])) // e is on the heap, and send keeps it
	e.frame[3] = uintptr(unsafe.Pointer(&e.sizes[3]))
	return 2
}

// msg3 is msg for a message taking only a structure of three words.
func (rt *Runtime) msg3(self, selector uintptr, s [3]uintptr) uintptr {
	return rt.msg(self, selector, uintptr(unsafe.Pointer(&s)))
}
