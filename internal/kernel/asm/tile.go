package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tile is C = 0 + A·B or C += A·B for rows by vecs vectors of C, all in
// registers. Per element it is one chain of fused multiply-adds from 0 on.
func (s set) tile(rows, vecs int) {
	name := fmt.Sprintf("%s%sTile%dx%d", s.name, s.element, rows, vecs)
	onWork(name)
	Doc(fmt.Sprintf("%s multiplies %d rows and %d vectors.", name, rows, vecs))
	t := Load(Param("t"), GP64())
	deep, a, b, stride := field(t, workDeep), field(t, workA), field(t, workB), field(t, workBStride)
	c, cstride, add := field(t, workC), field(t, workCStride), field(t, workAdd)

	// C is wanted at the end: fetch it while the sums are made.
	row := GP64()
	MOVQ(c, row)
	for i := range rows {
		for at := 0; at < vecs*s.bytes(); at += 64 {
			PREFETCHT0(Mem{Base: row, Disp: at})
		}
		if i < rows-1 {
			ADDQ(cstride, row)
		}
	}
	sums := make([][]reg.VecVirtual, rows)
	for i := range sums {
		for range vecs {
			sums[i] = append(sums[i], s.zero())
		}
	}
	y := make([]reg.VecVirtual, vecs)
	for j := range y {
		y[j] = s.vector()
	}
	ahead := GP64() // eight rows of B
	MOVQ(stride, ahead)
	SHLQ(Imm(3), ahead)
	Label("loop")
	for j := range y {
		VMOVUPS(Mem{Base: b, Disp: j * s.bytes()}, y[j])
	}
	for at := 0; at < vecs*s.bytes(); at += 64 {
		PREFETCHT0(Mem{Base: b, Index: ahead, Scale: 1, Disp: at})
	}
	for i := range sums {
		x := s.vector()
		s.broadcast(Mem{Base: a, Disp: i * s.size}, x)
		for j := range y {
			s.fma(y[j], x, sums[i][j])
		}
	}
	ADDQ(stride, b)
	ADDQ(I32(rows*s.size), a)
	DECQ(deep)
	JNZ(LabelRef("loop"))

	TESTQ(add, add)
	JZ(LabelRef("set"))
	s.store(c, cstride, sums, func(m Mem, sum reg.VecVirtual) { s.add(m, sum, sum) })
	VZEROUPPER()
	RET()
	Label("set")
	zero := s.zero()
	s.store(c, cstride, sums, func(m Mem, sum reg.VecVirtual) { s.add(zero, sum, sum) })
	VZEROUPPER()
	RET()
}

// store writes the sums to C after finish has been applied to each.
func (s set) store(c, cstride reg.GPVirtual, sums [][]reg.VecVirtual, finish func(m Mem, sum reg.VecVirtual)) {
	for i := range sums {
		for j, sum := range sums[i] {
			m := Mem{Base: c, Disp: j * s.bytes()}
			finish(m, sum)
			VMOVUPS(sum, m)
		}
		if i < len(sums)-1 {
			ADDQ(cstride, c)
		}
	}
}
