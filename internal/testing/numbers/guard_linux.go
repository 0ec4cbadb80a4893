package numbers

import (
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// AtGuard returns a copy of x ending at the end of accessible memory: accesses after its
// last element crash. The elements of x have no pointers.
func AtGuard[T any](t *testing.T, x []T) []T {
	page := syscall.Getpagesize()
	size := int(unsafe.Sizeof(*new(T)))
	pages := (len(x)*size + page - 1) / page
	memory, err := syscall.Mmap(-1, 0, (pages+1)*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { syscall.Munmap(memory) })
	require.NoError(t, syscall.Mprotect(memory[pages*page:], syscall.PROT_NONE))
	if len(x) == 0 {
		return nil
	}
	y := unsafe.Slice((*T)(unsafe.Pointer(&memory[pages*page-len(x)*size])), len(x))
	copy(y, x)
	return y
}
