package rdma

import (
	"os"
	"unsafe"
)

// Region is memory outside of the Go heap. All memory read or written by the library or a
// device is of this kind, because it does not move and its address may be kept.
type Region struct {
	B    []byte
	addr uintptr
}

// WholePages returns n rounded up to whole pages of the system, in bytes; at least one page.
func WholePages(n int) int {
	page := os.Getpagesize() // 16 KiB on Apple silicon
	return max((n+page-1)/page, 1) * page
}

// NewRegion returns a region of at least n bytes, in whole pages. All bytes are 0.
func NewRegion(n int) (*Region, error) {
	b, err := mapMemory(WholePages(n))
	if err != nil {
		return nil, err
	}
	return &Region{b, uintptr(unsafe.Pointer(unsafe.SliceData(b)))}, nil
}

// Close gives the memory back. It may be called twice.
func (r *Region) Close() {
	if r != nil && r.B != nil {
		unmapMemory(r.B) // fails only for memory that is not mapped
		r.B = nil
	}
}

// at returns a pointer to memory outside of the Go heap, off bytes after p.
func at(p, off uintptr) unsafe.Pointer {
	p += off
	return *(*unsafe.Pointer)(unsafe.Pointer(&p))
}

func byteAt(p, off uintptr) *byte     { return (*byte)(at(p, off)) }
func word16(p, off uintptr) *uint16   { return (*uint16)(at(p, off)) }
func word32(p, off uintptr) *uint32   { return (*uint32)(at(p, off)) }
func word64(p, off uintptr) *uint64   { return (*uint64)(at(p, off)) }
func ptrAt(p, off uintptr) uintptr    { return *(*uintptr)(at(p, off)) }
func bytesAt(p uintptr, n int) []byte { return unsafe.Slice(byteAt(p, 0), n) }

// text returns the zero-terminated string at p, at most 255 bytes of it.
func text(p uintptr) string {
	if p == 0 {
		return ""
	}
	n := 0
	for n < 255 && *byteAt(p, uintptr(n)) != 0 {
		n++
	}
	return string(bytesAt(p, n))
}
