package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dotsAhead is the prefetch distance in bytes of dots within a column: a vector of columns is more
// streams than the hardware prefetcher follows. A row times 64 columns of 2048 elements from memory takes
// 30 µs on one core of AMD's fourth generation, and 158 µs with columns first copied to panels.
const dotsAhead = 768

// dots writes a function setting the sums of one row of A times a vector of columns of B with contiguous
// elements: it transposes 4 rows at a time, with one column per lane. The number of products is a
// multiple of 4.
func (s set) dots() {
	name := s.name + s.element + "Dots"
	onWork(name)
	Doc(name + " sets a vector of sums to the products of a row and as many columns.")
	t := Load(Param("t"), GP64())
	left, a, stride := field(t, workDeep), field(t, workA), field(t, workBStride)
	three := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
	columns := make([]reg.Register, s.bytes()/16) // every fourth
	for q := range columns {
		columns[q] = field(t, workB)
		for range q {
			LEAQ(Mem{Base: columns[q], Index: stride, Scale: 4}, columns[q])
		}
	}
	column := func(q, j, disp int) Mem { // number 4q+j
		m := Mem{Base: columns[q], Disp: disp}
		switch j {
		case 1, 2:
			m.Index, m.Scale = stride, uint8(j)
		case 3:
			m.Index, m.Scale = three, 1
		}
		return m
	}
	sum := s.zero()
	for _, n := range []int{16, 4} {
		label, next := fmt.Sprintf("by%d", n), fmt.Sprintf("below%d", n)
		Label(label)
		CMPQ(left, I32(n))
		JLT(LabelRef(next))
		for q := range columns {
			for j := 0; j < 4 && n == 16; j++ {
				PREFETCHT0(column(q, j, dotsAhead))
			}
		}
		for p := 0; p < n; p += 4 {
			var v [4]reg.VecVirtual
			for j := range v {
				v[j] = s.vector()
				if s.wide {
					VBROADCASTF32X4(column(0, j, 4*p), v[j])
				} else {
					VBROADCASTF128(column(0, j, 4*p), v[j])
				}
				for q := 1; q < len(columns); q++ {
					if s.wide {
						VINSERTF32X4(Imm(uint64(q)), column(q, j, 4*p), v[j], v[j])
					} else {
						VINSERTF128(Imm(uint64(q)), column(q, j, 4*p), v[j], v[j])
					}
				}
			}
			for i := 0; i < 4; i += 2 {
				high := s.vector()
				VUNPCKHPS(v[i+1], v[i], high)
				VUNPCKLPS(v[i+1], v[i], v[i])
				v[i+1] = high
			}
			for i := range 4 {
				row, x := s.vector(), s.vector()
				if i%2 == 0 {
					VUNPCKLPD(v[i/2+2], v[i/2], row)
				} else {
					VUNPCKHPD(v[i/2+2], v[i/2], row)
				}
				s.broadcast(Mem{Base: a, Disp: 4 * (p + i)}, x)
				s.fma(row, x, sum)
			}
		}
		for _, c := range columns {
			ADDQ(I32(4*n), c)
		}
		ADDQ(I32(4*n), a)
		SUBQ(I32(n), left)
		JMP(LabelRef(label))
		Label(next)
	}
	VMOVUPS(sum, Mem{Base: field(t, workC)})
	VZEROUPPER()
	RET()
}
