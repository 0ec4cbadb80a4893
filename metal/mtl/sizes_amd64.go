package mtl

// pass appends two MTLSize to the frame, by value, and returns the number of arguments. The System
// V ABI passes structures of more than two words on the stack, which starts after six registers:
// two for the receiver and the selector, four left empty.
func (e *Compute) pass(a, b [3]int) int {
	clear(e.frame[2:6])
	for i := range 3 {
		e.frame[6+i], e.frame[9+i] = uintptr(a[i]), uintptr(b[i])
	}
	return 10
}

// msg3 is msg for a message taking only a structure of three words.
func (rt *Runtime) msg3(self, selector uintptr, s [3]uintptr) uintptr {
	return rt.msg(self, selector, 0, 0, 0, 0, s[0], s[1], s[2])
}
