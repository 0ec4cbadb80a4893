package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// brainStrip writes a function for C = 0 + A·B, or C += A·B, for a few rows of A, of float32, and 16
// columns of B, of bf16, with contiguous elements, such as rows of weights; 8 columns if the rows of A
// leave too few registers. It transposes weights in registers, giving each column a lane, before widening
// them. Each element is one chain of fused multiply-adds, starting with 0.
//
// It processes a cache line of 8 columns at a time. Columns with a power-of-two length map to the same set
// of the first-level cache, which has 8 ways.
func (s set) brainStrip(rows int) {
	const lanes, unit, step = 8, 64, 16
	columns := 2 * lanes
	if rows > stripMost/2 {
		columns = lanes
	}
	name := fmt.Sprintf("%sBrainStrip%d", s.name, rows)
	onWork(name)
	Doc(fmt.Sprintf("%s multiplies %d rows of float32 with %d columns of bf16, of contiguous elements.", name, rows, columns))
	p := &strip{t: Load(Param("t"), GP64()), all: lanes * step / unit}
	left := field(p.t, workDeep)
	p.fetch = field(p.t, workFetch)
	p.w, p.steps = p.pointers(workB, workBStride, columns)
	p.x, p.jumps = p.pointers(workA, workRowStride, rows)
	all := []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7}
	sum := func(g, r int) reg.VecPhysical { return all[g*rows+r] }
	for i := range columns / lanes * rows {
		VXORPS(all[i], all[i], all[i])
	}
	mask := reg.Y15
	VPCMPEQD(mask, mask, mask)
	VPSLLD(Imm(16), mask, mask)
	again := GP64()
	Label("loop")
	for g := range columns / lanes {
		loop := fmt.Sprintf("columns%d", g)
		MOVQ(I32(unit/step), again)
		Label(loop)
		p.fetched = 0
		for j, pairs := range p.turned(lanes*g, 0) {
			for odd := range 2 {
				w := YMM()
				if odd == 0 {
					VPSLLD(Imm(16), pairs, w)
				} else {
					VPAND(mask, pairs, w)
				}
				for r := range rows {
					x := YMM()
					VBROADCASTSS(p.X(r, 8*j+4*odd), x)
					VFMADD231PS(w, x, sum(g, r))
				}
			}
			p.prefetch(j % 2)
		}
		ADDQ(I32(64*p.all), p.fetch)
		for _, w := range p.w[g*lanes/4:][:lanes/4] {
			ADDQ(Imm(step), w)
		}
		for _, x := range p.x {
			ADDQ(Imm(2*step), x)
		}
		DECQ(again)
		JNZ(LabelRef(loop))
		if g < columns/lanes-1 {
			for _, x := range p.x {
				ADDQ(I32(-2*unit), x)
			}
		}
	}
	fetchPage(p.fetch)
	DECQ(left)
	JNZ(LabelRef("loop"))

	storeSums(field(p.t, workC), field(p.t, workCStride), field(p.t, workAdd), rows, columns/lanes, 4*lanes, func(r, g int) reg.VecPhysical { return sum(g, r) }, mask)
}

// turned returns the four 32-bit words from disp on of 8 rows of weights: lane i belongs to row from+i.
func (s *strip) turned(from, disp int) [4]reg.VecVirtual {
	return fourWords(func(i int) Mem { return s.W(from+i, disp) })
}
