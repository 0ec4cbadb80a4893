package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// amxStream writes a function adding A·B to sums in memory, for few rows of A, with the bits of
// TDPBF16PS. It reads groups of 32 rows of B in place. In a group the sums over even rows and the
// sums over odd rows are chains of float32 multiply-adds starting with 0; their total is added to
// the sum in memory. While it is running, subnormal numbers count as 0 and results flush to 0.
//
// `deep` counts groups. A is widened; its numbers are ordered by group, pair of rows of B, row of
// A, and even before odd. B is read in rounds of 4/rows vectors of 32 columns. The sums of a round
// are contiguous: by vector and row, the sums of even columns before those of odd ones.
func amxStream(rows int) {
	name := fmt.Sprintf("amxStream%d", rows)
	onWork(name)
	Doc(fmt.Sprintf("%s adds the products of %d rows of bf16 to sums, as tiles do.", name, rows))
	const pairs, zeros = 16, 0x9fc0 // no exceptions, to nearest; denormal arguments and results are 0
	vecs := 4 / rows
	t := Load(Param("t"), GP64())
	saved := AllocLocal(8)
	STMXCSR(saved)
	mode := GP32()
	MOVL(U32(zeros), mode)
	MOVL(mode, saved.Offset(4))
	LDMXCSR(saved.Offset(4))
	const even, odd, low, high, upper = 0, 8, 16, 17, 18 // the sums of even rows, of odd ones; columns; a mask
	MOVL(U32(0xffff0000), mode)
	VPBROADCASTD(mode, zmm(upper))

	groups, a, b, stride := field(t, workDeep), field(t, workA), field(t, workB), field(t, workBStride)
	Label("group")
	sums, left, strip := field(t, workC), field(t, workCols), GP64()
	MOVQ(b, strip)
	Label("round")
	for i := range 16 {
		VPXORD(zmm(i), zmm(i), zmm(i))
	}
	row, x, n := GP64(), GP64(), GP64()
	MOVQ(strip, row)
	MOVQ(a, x)
	MOVQ(U32(pairs), n)
	Label("pair")
	for chain, first := range []int{even, odd} {
		for v := range vecs {
			m := Mem{Base: row, Disp: 64 * v}
			PREFETCHT0(Mem{Base: row, Disp: 64*v + 256})
			VPSLLD(Imm(16), m, zmm(low))
			VPANDD(m, zmm(upper), zmm(high))
			for r := range rows {
				to := first + 2*(v*rows+r)
				y := Mem{Base: x, Disp: 8*r + 4*chain}
				VFMADD231PS_BCST(y, zmm(low), zmm(to))
				VFMADD231PS_BCST(y, zmm(high), zmm(to+1))
			}
		}
		ADDQ(stride, row)
	}
	ADDQ(I32(8*rows), x)
	DECQ(n)
	JNZ(LabelRef("pair"))
	for i := range 8 {
		VADDPS(zmm(odd+i), zmm(even+i), zmm(even+i))
		VADDPS(Mem{Base: sums, Disp: 64 * i}, zmm(even+i), zmm(even+i))
		VMOVUPS(zmm(even+i), Mem{Base: sums, Disp: 64 * i})
	}
	ADDQ(I32(512), sums)
	ADDQ(I32(64*vecs), strip)
	SUBQ(I32(64*vecs), left)
	JNZ(LabelRef("round"))
	MOVQ(row, b) // the last round ends after the group's last row
	MOVQ(x, a)
	columns := field(t, workCols)
	SUBQ(I32(64*vecs), columns)
	SUBQ(columns, b)
	DECQ(groups)
	JNZ(LabelRef("group"))
	LDMXCSR(saved)
	VZEROUPPER()
	RET()
}
