package pages

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// page is the size in bytes of a large page, and smallest the size from which on memory
// is asked for in large pages. A smaller array would gain less than a call costs.
const page, smallest = 2 << 20, 4 << 20

// Large asks the system to hold mem in pages of 2 MiB, as far as whole ones lie in mem. It
// does nothing to less than 4 MiB. The first write to each page then costs one fault where
// it cost 512, and the processor finds addresses with fewer steps. It is for memory that
// stays: a large page is zeroed as a whole when its first byte is written. Contents stay as
// they are. Nothing changes where the system has no such pages; mem must not be memory
// of a mapped file.
//
// Source: madvise(2), MADV_HUGEPAGE.
func Large(mem []byte) {
	if len(mem) < smallest {
		return
	}
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	skip := (page - begin%page) % page
	whole := (uintptr(len(mem)) - skip) / page * page
	// An error says that this kernel was built without large pages.
	_ = unix.Madvise(mem[skip:skip+whole], unix.MADV_HUGEPAGE)
}
