//go:build (linux || darwin) && (amd64 || arm64)

package rdma

import (
	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

func mapMemory(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func unmapMemory(b []byte) { unix.Munmap(b) }

// load opens a dynamic library. It stays open: its providers keep state, and an
// equal name gives the same library again.
func load(name string) (uintptr, error) {
	return purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

func symbol(handle uintptr, name string) (uintptr, error) { return purego.Dlsym(handle, name) }

// yielder returns the C library's sched_yield, 0 if there is none.
func yielder() uintptr {
	f, err := purego.Dlsym(purego.RTLD_DEFAULT, "sched_yield")
	if err != nil {
		return 0
	}
	return f
}

// errnoOf returns the C library's function that says where the thread's errno is.
func errnoOf() (uintptr, error) {
	f, err := purego.Dlsym(purego.RTLD_DEFAULT, "__errno_location") // Linux
	if err != nil {
		f, err = purego.Dlsym(purego.RTLD_DEFAULT, "__error") // macOS
	}
	return f, err
}

// invoke calls a C function.
func invoke(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
