package pages

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// page is the size in bytes of a large page, and smallest the smallest size for which
// large pages are requested. A smaller array would gain less than a call costs.
const page, smallest = 2 << 20, 4 << 20

// Large asks the system to hold mem in pages of 2 MiB, as far as whole ones lie in mem.
// It does nothing to less than 4 MiB. The first writes to each page then cost one fault
// instead of 512, and the processor translates addresses in fewer steps. It is for
// long-lived memory: a large page is zeroed as a whole when its first byte is written.
// Contents are unchanged. On systems without such pages it does nothing; mem must not be
// memory of a mapped file.
//
// Source: madvise(2), MADV_HUGEPAGE.
func Large(mem []byte) {
	if len(mem) < smallest {
		return
	}
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	skip := (page - begin%page) % page
	whole := (uintptr(len(mem)) - skip) / page * page
	// It is an error if this kernel was built without large pages.
	_ = unix.Madvise(mem[skip:skip+whole], unix.MADV_HUGEPAGE)
}
