package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
)

// packPairs copies a panel, kn deep and n wide, to dst as pairs. Element p,l of the panel
// is src[p*ps+l*ls]; the elements 2t,l and 2t+1,l become dst[t*width+l]. dst has `pairs`
// rows of width pairs; elements outside the panel become 0.
func (s *halfSet) packPairs(dst []uint32, width, pairs int, src []array.Brain, n, kn, ps, ls int) {
	dst = dst[:pairs*width]
	if n < width || kn < 2*pairs {
		clear(dst)
	}
	whole := kn / 2
	if n == 1 && width == 1 && ps == 1 {
		copy(brains(dst), src[:kn])
		return
	}
	done := 0 // number of the n copied so far
	switch {
	case whole == 0:
	case ls == 1:
		for _, t := range s.pairRows {
			for ; done+t.Lanes <= n; done += t.Lanes {
				t.Do(whole, bytesOf(dst[done:]), uintptr(4*width), bytesOf(src[done:]), uintptr(2*ps))
			}
		}
	case ps == 1:
		for _, t := range s.transposes {
			deep := whole - whole%t.Deep
			for ; deep > 0 && done+t.Lanes <= n; done += t.Lanes {
				from, to := src[done*ls:], dst[done:]
				t.Do(deep, bytesOf(to), uintptr(4*width), bytesOf(from), uintptr(2*ls))
				for q := deep; q < whole; q++ {
					for l := range t.Lanes {
						to[q*width+l] = pair(from[l*ls+2*q], from[l*ls+2*q+1])
					}
				}
			}
		}
	}
	for l := done; l < n; l++ {
		from := src[l*ls:]
		for q := range whole {
			dst[q*width+l] = pair(from[2*q*ps], from[(2*q+1)*ps])
		}
	}
	for l := 0; l < n && kn%2 > 0; l++ {
		dst[whole*width+l] = pair(src[l*ls+(kn-1)*ps], 0)
	}
}

func pair(even, odd array.Brain) uint32 { return uint32(even) | uint32(odd)<<16 }

// brains returns the numbers of the pairs x, in order. It is right on machines storing
// the lower half first; others have no halfSet.
func brains(x []uint32) []array.Brain {
	return unsafe.Slice((*array.Brain)(unsafe.Pointer(unsafe.SliceData(x))), 2*len(x))
}

// squareRows and squarePairs are the size of a square of A in rows and in pairs.
const squareRows, squarePairs = 16, 16

// packSquares copies `in` rows of A, kn deep, to dst as squares of 16 rows of 16 pairs.
// Squares of the same rows are consecutive. The last squares are filled with zeros.
func (p *pairProduct) packSquares(dst []uint32, src []array.Brain, in, kn int) {
	squares := p.s.depth(kn) / (2 * squarePairs)
	for i := 0; i < in; i += squareRows {
		h := min(squareRows, in-i)
		for q := range squares {
			k0 := 2 * squarePairs * q
			p.square(dst[(i*squares+q*squareRows)*squarePairs:][:squareRows*squarePairs], src[i*p.ars+k0*p.acs:], h, min(2*squarePairs, kn-k0))
		}
	}
}

// square copies h rows of A, kn deep, to one square.
func (p *pairProduct) square(dst []uint32, src []array.Brain, h, kn int) {
	if h < squareRows || kn < 2*squarePairs {
		clear(dst)
	}
	if p.acs == 1 {
		to := brains(dst)
		if h == squareRows && kn == 2*squarePairs {
			for r := range h { // of constant size, so that a row is one instruction
				*(*[2 * squarePairs]array.Brain)(to[r*2*squarePairs:]) = *(*[2 * squarePairs]array.Brain)(src[r*p.ars:])
			}
			return
		}
		for r := range h {
			copy(to[r*2*squarePairs:][:kn], src[r*p.ars:])
		}
		return
	}
	// The block is copied to columns of pairs, and these to rows.
	cols := p.w.square[:]
	p.s.packPairs(cols, squareRows, squarePairs, src, h, kn, p.acs, p.ars)
	done := 0
	for _, t := range p.s.transposes {
		for ; done+t.Lanes <= squarePairs && squareRows%t.Deep == 0; done += t.Lanes {
			t.Do(squareRows, bytesOf(dst[done:]), 4*squarePairs, bytesOf(cols[done*squareRows:]), 4*squareRows)
		}
	}
	for q := done; q < squarePairs; q++ {
		for r := range squareRows {
			dst[r*squarePairs+q] = cols[q*squareRows+r]
		}
	}
}
