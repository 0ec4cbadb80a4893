package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tile writes a function for C = 0 + A·B, or C += A·B, where C is rows by vecs vectors, all in
// registers. Each element is one chain of fused multiply-adds, starting with 0. A is read in place,
// element by element. If copying is set, the function also copies the panel of B, with contiguous
// rows, for the tiles below. It then prefetches the panel to the right in B, which the next copying
// tile reads, to the second-level cache.
func (s set) tile(rows, vecs int, copying bool) {
	name, what := fmt.Sprintf("%s%sTile%dx%d", s.name, s.element, rows, vecs), "multiplies"
	if copying {
		name, what = fmt.Sprintf("%s%sCopying%dx%d", s.name, s.element, rows, vecs), "copies B and multiplies"
	}
	onWork(name)
	Doc(fmt.Sprintf("%s %s %d rows and %d vectors.", name, what, rows, vecs))
	t := Load(Param("t"), GP64())
	deep, b, stride := field(t, workDeep), field(t, workB), field(t, workBStride)
	x, next := s.rowsOf(t, rows)
	c, cstride := field(t, workC), field(t, workCStride)
	var to reg.GPVirtual
	if copying {
		to = field(t, workCopy)
	}

	// C is needed at the end, so it is prefetched while computing the sums.
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
	var ahead reg.GPVirtual
	if !copying {
		ahead = field(t, workAhead)
	}
	Label("loop")
	for j := range y {
		VMOVUPS(Mem{Base: b, Disp: j * s.bytes()}, y[j])
	}
	for at := 0; at < vecs*s.bytes(); at += 64 {
		if copying {
			PREFETCHT1(Mem{Base: b, Disp: vecs*s.bytes() + at})
		} else {
			PREFETCHT0(Mem{Base: b, Index: ahead, Scale: 1, Disp: at})
		}
	}
	for i := range sums {
		v := s.vector()
		s.broadcast(x(i), v)
		for j := range y {
			s.fma(y[j], v, sums[i][j])
		}
	}
	if copying {
		for j := range y {
			VMOVUPS(y[j], Mem{Base: to, Disp: j * s.bytes()})
		}
		ADDQ(I32(vecs*s.bytes()), to)
	}
	ADDQ(stride, b)
	next()
	DECQ(deep)
	JNZ(LabelRef("loop"))

	MOVQ(Mem{Base: t, Disp: workC}, c)
	add := field(t, workAdd)
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

// store writes the sums to C, calling finish to change each first.
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

// rowsOf returns a function for the address of row i's current element of A, and a function
// advancing to the next element of all rows.
func (s set) rowsOf(t reg.Register, rows int) (at func(i int) Mem, next func()) {
	a, stride, step := field(t, workA), field(t, workAStride), field(t, workAStep)
	var stride3, a4 reg.GPVirtual
	if rows >= 4 {
		stride3 = GP64()
		LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	}
	if rows > 4 {
		a4 = GP64()
		LEAQ(Mem{Base: a, Index: stride, Scale: 4}, a4)
	}
	at = func(i int) Mem {
		base := a
		if i >= 4 {
			base, i = a4, i-4
		}
		switch i {
		case 0:
			return Mem{Base: base}
		case 3:
			return Mem{Base: base, Index: stride3, Scale: 1}
		}
		return Mem{Base: base, Index: stride, Scale: uint8(i)}
	}
	return at, func() {
		ADDQ(step, a)
		if rows > 4 {
			ADDQ(step, a4)
		}
	}
}
