//go:build (linux || darwin) && (amd64 || arm64)

package mtl

import "github.com/ebitengine/purego"

// load opens a library of the system, with its symbols visible to others.
func load(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

// symbol returns the address of a function of an open library.
func symbol(library uintptr, name string) (uintptr, error) { return purego.Dlsym(library, name) }

// call calls a C function of integers and pointers, and returns its two registers of
// results. args is on the heap, and so is all that its pointers point to: the stack
// that a goroutine has may move at any call. It allocates nothing.
func call(fn uintptr, args []uintptr) (r1, r2 uintptr) {
	r1, r2, _ = purego.SyscallN(fn, args...)
	return r1, r2
}

// doubles returns objc_msgSend for messages without arguments that return a double,
// which comes back in a register of its own kind.
func doubles(send uintptr) func(self, selector uintptr) float64 {
	var f func(self, selector uintptr) float64
	purego.RegisterFunc(&f, send)
	return f
}
