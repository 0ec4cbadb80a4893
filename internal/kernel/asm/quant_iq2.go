package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// iq2 is the product of rows of the type with weights looked up in a codebook, 8 at a time. No
// arithmetic makes its vectors, and looking up 32 weights takes so long that loops over them, and
// over four rows of weights, cost nothing.
func (q quantSet) iq2(s shape) {
	if s.w == 4 {
		q.iq2Rows(s)
		return
	}
	f := q.begin("IQ2", iq2Size, s)
	var sum [4]reg.VecVirtual
	for l := range sum {
		sum[l] = q.zeroSum()
	}
	q.iq2Pieces(f.t, f.w[0], func(v, sign, scale reg.VecVirtual, at reg.Register) {
		for l := range sum {
			q.iq2Product(f.x[l], at, v, sign, scale, sum[l])
		}
	})
	q.iq2Add(f, q.halves(f, 0), sum)
	f.end(iq2Size, superRow)
}

// iq2Size is the size of a block of 256 in bytes.
const iq2Size = 66

// iq2Rows is four rows of weights with one row. The rows of weights leave their sums and d on the
// stack.
func (q quantSet) iq2Rows(s shape) {
	w, done, lane, d := GP64(), GP64(), GP64(), GP32()
	var sums, halves Mem
	f := q.begin("IQ2", iq2Size, s, func() {
		sums, halves = AllocLocal(4*32), AllocLocal(8)
		XORQ(done, done)
	})
	XORQ(lane, lane) // 8 a row
	Label("lane")
	MOVQ(Mem{Base: f.t, Disp: quantW, Index: lane, Scale: 1}, w)
	ADDQ(done, w)
	sum := q.zeroSum()
	q.iq2Pieces(f.t, w, func(v, sign, scale reg.VecVirtual, at reg.Register) {
		q.iq2Product(f.x[0], at, v, sign, scale, sum)
	})
	VMOVDQU(sum, sums.Idx(lane, 4))
	MOVWLZX(Mem{Base: w}, d)
	SHRQ(Imm(2), lane)
	MOVW(d.As16(), halves.Idx(lane, 1))
	SHLQ(Imm(2), lane)
	ADDQ(Imm(8), lane)
	CMPQ(lane, Imm(32))
	JNE(LabelRef("lane"))
	var all [4]reg.VecVirtual
	for l := range all {
		all[l] = YMM()
		VMOVDQU(sums.Offset(32*l), all[l])
	}
	half := XMM()
	VMOVQ(halves, half)
	VCVTPH2PS(half, half)
	q.iq2Add(f, half, all)
	ADDQ(I32(iq2Size), done)
	f.end(iq2Size, superRow)
}

// zeroSum returns zeros, using an instruction known to the allocator as reading nothing.
func (q quantSet) zeroSum() reg.VecVirtual {
	v := YMM()
	VPXOR(v, v, v)
	return v
}

// iq2Pieces is a loop over the block at w, 32 weights at a time: do gets them, their signs, their
// scales, and a quarter of their offset in a block of a rounded row.
func (q quantSet) iq2Pieces(t, w reg.Register, do func(v, sign, scale reg.VecVirtual, at reg.Register)) {
	book, signs, at := field(t, quantBook), GP64(), GP64()
	LEAQ(NewDataAddr(Symbol{Name: "quantSigns", Static: true}, 0), signs)
	XORQ(at, at)
	Label("piece")
	bits := GP64()
	MOVL(Mem{Base: w, Index: at, Scale: 1, Disp: 6}, bits.As32())
	// look returns 8 bytes from each of four entries of a table.
	look := func(table reg.Register, place func(l int, entry reg.GPVirtual)) reg.VecVirtual {
		var x [2]reg.VecVirtual
		for l := range 4 {
			entry := GP64()
			place(l, entry)
			m := Mem{Base: table, Index: entry, Scale: 8}
			if l%2 == 0 {
				x[l/2] = XMM()
				VMOVQ(m, x[l/2])
			} else {
				VPINSRQ(Imm(1), m, x[l/2], x[l/2])
			}
		}
		y := YMM()
		VINSERTI128(Imm(1), x[1], x[0].AsY(), y)
		return y
	}
	v := look(book, func(l int, entry reg.GPVirtual) {
		MOVBLZX(Mem{Base: w, Index: at, Scale: 1, Disp: 2 + l}, entry.As32())
	})
	sign := look(signs, func(l int, entry reg.GPVirtual) {
		MOVL(bits.As32(), entry.As32())
		ANDL(Imm(127), entry.As32())
		if l < 3 {
			SHRL(Imm(7), bits.As32())
		}
	})
	SHRL(Imm(7), bits.As32()) // 21 bits were shifted before
	LEAL(Mem{Base: bits, Index: bits, Scale: 1, Disp: 1}, bits.As32())
	x, scale := XMM(), YMM()
	VMOVD(bits.As32(), x)
	VPBROADCASTW(x, scale)
	do(v, sign, scale, at)
	ADDQ(Imm(8), at)
	CMPQ(at, Imm(64))
	JNE(LabelRef("piece"))
}

// iq2Product adds products with 32 elements of the row at x to a sum.
func (q quantSet) iq2Product(x, at reg.Register, v, sign, scale, sum reg.VecVirtual) {
	p := YMM()
	VMOVDQU(Mem{Base: x, Index: at, Scale: 4}, p)
	VPSIGNB(sign, p, p)
	VPMADDUBSW(p, v, p)
	VPMADDWD(scale, p, p)
	VPADDD(p, sum, sum)
}

// iq2Add adds a block's sums, times d and dx, to the products.
func (q quantSet) iq2Add(f frame, d reg.VecVirtual, sum [4]reg.VecVirtual) {
	VADDPS(scaled(d, q.floats(f, 0, superScale), fold(q.sumLanes(sum, q.vector), false)), f.acc[0], f.acc[0])
}
