package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// workFetch is the offset of field fetch of type halfWork in package gemm, which checks it.
const workFetch = 112

// physicals hands out registers for instructions written as bytes, which avo does not see.
type physicals []int

func (p *physicals) take() int {
	i := (*p)[0]
	*p = (*p)[1:]
	return i
}

func (p *physicals) free(all ...int) { *p = append(*p, all...) }

// dotStrip writes a function for C = 0 + A·B, or C += A·B, for a few rows of A and 16 columns of B
// with contiguous elements, such as rows of weights. It reads a line of each column, 32 elements,
// and transposes the 16 lines in registers, giving each column a lane, before multiplying with
// pairs of A. Each element is one chain of pairs of products, starting with 0.
//
// Columns with a power-of-two length map to the same set of the first-level cache, so a line is
// read only once.
func dotStrip(rows int) {
	const columns, unit = 16, 64
	name := fmt.Sprintf("dotStrip%d", rows)
	onWork(name)
	Doc(fmt.Sprintf("%s multiplies %d rows of bf16 with 16 columns of contiguous elements.", name, rows))
	s := &strip{t: Load(Param("t"), GP64()), all: columns}
	left := field(s.t, workDeep)
	s.fetch = field(s.t, workFetch)
	s.w, s.steps = s.pointers(workB, workBStride, columns)
	s.x, s.jumps = s.pointers(workA, workRowStride, rows)
	pool := physicals{}
	for i := range 32 {
		if i < rows {
			VPXORD(zmm(i), zmm(i), zmm(i))
			continue
		}
		pool.free(i)
	}
	Label("loop")
	r := make([]int, columns)
	for i := range r {
		r[i] = pool.take()
		VMOVDQU64(s.W(i, 0), zmm(r[i]))
		s.prefetch(1)
	}
	// two replaces registers a and b by low(a, b) and high(a, b).
	two := func(a, b *int, low, high func(x, y reg.VecPhysical, z reg.VecPhysical)) {
		l, h := pool.take(), pool.take()
		low(zmm(*b), zmm(*a), zmm(l))
		high(zmm(*b), zmm(*a), zmm(h))
		pool.free(*a, *b)
		*a, *b = l, h
	}
	dwords := [2]func(x, y, z reg.VecPhysical){func(x, y, z reg.VecPhysical) { VPUNPCKLDQ(x, y, z) }, func(x, y, z reg.VecPhysical) { VPUNPCKHDQ(x, y, z) }}
	quads := [2]func(x, y, z reg.VecPhysical){func(x, y, z reg.VecPhysical) { VPUNPCKLQDQ(x, y, z) }, func(x, y, z reg.VecPhysical) { VPUNPCKHQDQ(x, y, z) }}
	quarters := [2]func(x, y, z reg.VecPhysical){func(x, y, z reg.VecPhysical) { VSHUFI32X4(Imm(0x88), x, y, z) }, func(x, y, z reg.VecPhysical) { VSHUFI32X4(Imm(0xdd), x, y, z) }}
	for i := 0; i < columns; i += 2 {
		two(&r[i], &r[i+1], dwords[0], dwords[1])
	}
	for i := 0; i < columns; i += 4 { // a quarter q of r[i+j] is then pair 4q+j of columns i to i+3
		two(&r[i], &r[i+2], quads[0], quads[1])
		two(&r[i+1], &r[i+3], quads[0], quads[1])
		r[i+1], r[i+2] = r[i+2], r[i+1]
	}
	for j := range 4 {
		two(&r[j], &r[4+j], quarters[0], quarters[1])
		two(&r[8+j], &r[12+j], quarters[0], quarters[1])
	}
	for pair := range columns {
		odd, high := pair/4%2, pair/8
		v := pool.take()
		quarters[high](zmm(r[8+4*odd+pair%4]), zmm(r[4*odd+pair%4]), zmm(v))
		for k := range rows {
			x := pool.take()
			VPBROADCASTD(s.X(k, 4*pair), zmm(x))
			dot(k, x, v)
			pool.free(x)
		}
		pool.free(v)
	}
	pool.free(r...)
	s.fetchRest(64 * s.all)
	for _, p := range append(s.w, s.x...) {
		ADDQ(Imm(unit), p)
	}
	DECQ(left)
	JNZ(LabelRef("loop"))

	storeSums(field(s.t, workC), field(s.t, workCStride), field(s.t, workAdd), rows, 1, 64, func(k, _ int) reg.VecPhysical { return zmm(k) }, zmm(31))
}
