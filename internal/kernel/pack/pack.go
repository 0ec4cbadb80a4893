package pack

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// Set holds the copying loops of one instruction set for elements of one size.
type Set struct {
	lanes int // elements of a vector
	// copies has a loop for each length, in bytes, of the rows to copy.
	copies map[int]func(n int, dst, src *byte, stride uintptr)
	// Transposes are tried in this order.
	Transposes []Transposition
}

// Transposition reads Lanes rows and writes them as columns. It reads n elements of each
// row; n is a multiple of Deep. pitch, of dst, and stride, of src, are in bytes.
type Transposition struct {
	Lanes, Deep int
	Do          func(n int, dst *byte, pitch uintptr, src *byte, stride uintptr)
}

// Panel copies a panel, kn deep and n wide, to dst. Its element p,l is src[p*ps+l*ls] and
// becomes dst[p*width+l]. Elements n to width-1 of each row of dst become 0. s may not be
// nil.
func Panel[T kernel.Float](s *Set, dst []T, width int, src []T, n, kn, ps, ls int) {
	size := int(unsafe.Sizeof(T(0)))
	dst = dst[:kn*width]
	if n < width {
		clear(dst)
	}
	done := 0 // lanes
	switch {
	case ls == 1:
		if do := s.copies[n*size]; do != nil && n == width {
			do(kn, address(dst), address(src), uintptr(ps*size))
			return
		}
		if n < s.lanes/2 {
			break // too short for copy
		}
		for p := range kn {
			copy(dst[p*width:][:n], src[p*ps:])
		}
		return
	case ps == 1:
		for _, t := range s.Transposes {
			deep := kn - kn%t.Deep
			for ; deep > 0 && done+t.Lanes <= n; done += t.Lanes {
				from, to := src[done*ls:], dst[done:]
				t.Do(deep, address(to), uintptr(width*size), address(from), uintptr(ls*size))
				for p := deep; p < kn; p++ {
					for l := range t.Lanes {
						to[p*width+l] = from[l*ls+p]
					}
				}
			}
		}
	}
	for l := done; l < n; l++ {
		for p, from := 0, src[l*ls:]; p < kn; p++ {
			dst[p*width+l] = from[p*ps]
		}
	}
}

func address[T kernel.Float](x []T) *byte { return (*byte)(unsafe.Pointer(unsafe.SliceData(x))) }
