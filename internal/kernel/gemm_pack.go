package kernel

import "unsafe"

// pack copies a panel, kn deep and n wide, to dst, where its rows lie side by
// side: element p,l is src[p*ps+l*ls] and becomes dst[p*width+l]. Elements n to
// width become 0.
func pack[T Float](s *set, dst []T, width int, src []T, n, kn, ps, ls int) {
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
		for _, t := range s.transposes {
			deep := kn - kn%t.deep
			for ; deep > 0 && done+t.lanes <= n; done += t.lanes {
				from, to := src[done*ls:], dst[done:]
				t.do(deep, address(to), uintptr(width*size), address(from), uintptr(ls*size))
				for p := deep; p < kn; p++ {
					for l := range t.lanes {
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

func address[T Float](x []T) *byte { return (*byte)(unsafe.Pointer(unsafe.SliceData(x))) }
