//go:build (linux || darwin) && (amd64 || arm64)

package dynlib

import "github.com/ebitengine/purego"

// Open opens a library, with its symbols visible to the plug-ins that it loads. An equal
// name gives the same library again.
func Open(file string) (Library, error) {
	l, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	return Library(l), err
}

// Close gives the library back. Those whose plug-ins keep state stay open for ever.
func (l Library) Close() { _ = purego.Dlclose(uintptr(l)) }

// Symbol returns the address of a function.
func (l Library) Symbol(name string) (uintptr, error) { return purego.Dlsym(uintptr(l), name) }

// C returns the address of a function of the C library.
func C(name string) (uintptr, error) { return purego.Dlsym(purego.RTLD_DEFAULT, name) }

// Call calls a C function of integers and pointers, and returns its two registers of
// results. A pointer among args is converted in the list of arguments itself: only then
// it is kept alive, and on the heap, where it does not move; one converted before may be
// of a stack that has moved since. A function that hands its own arguments on is marked
// go:uintptrescapes too. A call with a slice as its args allocates nothing.
//
//go:uintptrescapes
func Call(fn uintptr, args ...uintptr) (r1, r2 uintptr) {
	r1, r2, _ = purego.SyscallN(fn, args...)
	return r1, r2
}

// Double returns a C function of two integers or pointers that returns a double, which
// comes back in a register of its own kind.
func Double(fn uintptr) func(a, b uintptr) float64 {
	var f func(a, b uintptr) float64
	purego.RegisterFunc(&f, fn)
	return f
}
