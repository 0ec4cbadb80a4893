//go:build (linux || darwin) && (amd64 || arm64)

package mpi

import "github.com/ebitengine/purego"

// load opens a library, with its symbols visible to the plug-ins that it loads.
func load(name string) (uintptr, error) {
	return purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

func unload(lib uintptr) { _ = purego.Dlclose(lib) }

// find returns a symbol's address.
func find(lib uintptr, name string) (uintptr, error) { return purego.Dlsym(lib, name) }

// findC returns the address of a function of the C library.
func findC(name string) (uintptr, error) { return purego.Dlsym(purego.RTLD_DEFAULT, name) }

// call calls a C function of integers and pointers that returns an int. A pointer
// among a is converted in the list of arguments itself: only then it is kept alive,
// and on the heap, where it does not move. A value converted before may be of a
// stack that the call has moved.
//
//go:uintptrescapes
func call(fn uintptr, a ...uintptr) int32 {
	r, _, _ := purego.SyscallN(fn, a...)
	return int32(r)
}
