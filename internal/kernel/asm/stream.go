package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// stream writes a function adding A·B to sums in memory, for few rows of A. It reads `deep` rows of
// B at a time, from end to end, which is the fastest way to read memory. The sums of one vector of
// columns are contiguous, row after row. With s.from, B has 16-bit numbers and is widened.
func (s set) stream(rows, deep int) {
	name := fmt.Sprintf("%s%sStream%d", s.name, s.from+s.element, rows)
	onWork(name)
	Doc(fmt.Sprintf("%s adds the products of %d rows to sums.", name, rows))
	step := s.bytes() // the bytes of a row of B in one round
	if s.from != "" {
		step /= 2
	}
	t := Load(Param("t"), GP64())
	left, a, b, stride := field(t, workDeep), field(t, workA), field(t, workB), field(t, workBStride)
	for _, n := range []int{deep, 1} {
		label := fmt.Sprintf("by%d", n)
		next := fmt.Sprintf("below%d", n)
		Label(label)
		CMPQ(left, I32(n))
		JLT(LabelRef(next))
		x := make([][]reg.VecVirtual, n)
		from := make([]reg.GPVirtual, n)
		for p := range n {
			for r := range rows {
				v := s.vector()
				s.broadcast(Mem{Base: a, Disp: (p*rows + r) * s.size}, v)
				x[p] = append(x[p], v)
			}
			from[p] = GP64()
			MOVQ(b, from[p])
			ADDQ(stride, b)
		}
		sums, cols := field(t, workC), field(t, workCols)
		at := GP64()
		XORQ(at, at)
		loop := fmt.Sprintf("columns%d", n)
		Label(loop)
		sum := make([]reg.VecVirtual, rows)
		for r := range sum {
			sum[r] = s.vector()
			VMOVUPS(Mem{Base: sums, Disp: r * s.bytes()}, sum[r])
		}
		for p := range n {
			m := Mem{Base: from[p], Index: at, Scale: 1}
			if rows == 1 && s.from == "" {
				s.fma(m, x[p][0], sum[0])
				continue
			}
			y := s.vector()
			switch s.from {
			case "Brain":
				VPMOVZXWD(m, y)
				VPSLLD(Imm(16), y, y)
			case "Half":
				VCVTPH2PS(m, y)
			default:
				VMOVUPS(m, y)
			}
			for r := range sum {
				s.fma(y, x[p][r], sum[r])
			}
		}
		for r := range sum {
			VMOVUPS(sum[r], Mem{Base: sums, Disp: r * s.bytes()})
		}
		ADDQ(I32(rows*s.bytes()), sums)
		ADDQ(I32(step), at)
		CMPQ(at, cols)
		JLT(LabelRef(loop))
		ADDQ(I32(n*rows*s.size), a)
		SUBQ(I32(n), left)
		JMP(LabelRef(label))
		Label(next)
	}
	VZEROUPPER()
	RET()
}
