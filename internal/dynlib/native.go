//go:build (linux || darwin) && (amd64 || arm64)

package dynlib

import "github.com/ebitengine/purego"

// Open opens a library. Its symbols are visible to the plug-ins that it loads. The same
// name returns the same library again.
func Open(file string) (Library, error) {
	l, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	return Library(l), err
}

// Close closes the library. Libraries with stateful plug-ins are never unloaded.
func (l Library) Close() { _ = purego.Dlclose(uintptr(l)) }

// Symbol returns the address of a function.
func (l Library) Symbol(name string) (uintptr, error) { return purego.Dlsym(uintptr(l), name) }

// C returns the address of a function of the C library.
func C(name string) (uintptr, error) { return purego.Dlsym(purego.RTLD_DEFAULT, name) }

// Call calls a C function taking integers and pointers, and returns its two result
// registers. A pointer must be converted to uintptr in the argument list itself: only
// then is its memory kept alive and on the heap, where it does not move. A pointer
// converted earlier may point into a stack that has moved since. A function forwarding
// its own arguments must be marked go:uintptrescapes as well. A call with a slice as args
// allocates nothing.
//
//go:uintptrescapes
func Call(fn uintptr, args ...uintptr) (r1, r2 uintptr) {
	r1, r2, _ = purego.SyscallN(fn, args...)
	return r1, r2
}

// Double returns a C function that takes two integers or pointers and returns a double,
// which C returns in a floating-point register.
func Double(fn uintptr) func(a, b uintptr) float64 {
	var f func(a, b uintptr) float64
	purego.RegisterFunc(&f, fn)
	return f
}
