package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// group writes a function with a loop over groups of 4 blocks of 32: of q8_0, of mxfp4, or of
// weights unpacked to quant.Group, which has the layout of a rounded row, with offsets instead of
// sums.
func (q quantSet) group(kind string, size int, s shape) {
	f := q.begin(kind, groupLen*size, s)
	g := groups{q, f, size, kind == "MX", kind == "Group"}
	if q.wide {
		g.wide()
	} else {
		for b := range groupLen {
			g.narrow(b)
		}
	}
	f.end(groupLen*size, groupRow)
}

type groups struct {
	quantSet
	f    frame
	size int
	mx   bool
	// unpacked is set if the weights are quant.Group.
	unpacked bool
}

// value returns entry i of mxfp4's table, plus off.
func value(i, off int) uint8 {
	v := []int{0, 1, 2, 3, 4, 6, 8, 12}[i%8]
	if i%16 >= 8 {
		v = -v
	}
	return uint8(v + off)
}

// narrow adds the products of block b.
func (g groups) narrow(b int) {
	var size, raw reg.VecVirtual // |w| and w of the weights
	load := func(w reg.Register) {
		raw, size = YMM(), YMM()
		switch {
		case g.unpacked:
			VMOVDQU(Mem{Base: w, Disp: 32 * b}, raw)
		case !g.mx:
			VMOVDQU(Mem{Base: w, Disp: b*g.size + 2}, raw)
		default:
			low, high := XMM(), XMM()
			VMOVDQU(Mem{Base: w, Disp: b*g.size + 1}, low)
			VPSRLW(Imm(4), low, high)
			VINSERTI128(Imm(1), high, low.AsY(), raw)
			VPAND(g.table.same(15), raw, raw)
			values := YMM()
			VMOVDQU(g.table.vector(func(i int) uint8 { return value(i, 0) }), values)
			VPSHUFB(raw, values, raw)
		}
		VPABSB(raw, size)
	}
	var sum [4]reg.VecVirtual
	for l := range 4 {
		if l == 0 || !g.f.columns {
			load(g.f.W(l))
		}
		x := YMM()
		VMOVDQU(Mem{Base: g.f.X(0, l), Disp: 32 * b}, x)
		VPSIGNB(raw, x, x)
		VPMADDUBSW(x, size, x)
		sum[l] = YMM()
		VPMADDWD(g.table.words(func(int) int { return 1 }), x, sum[l])
	}
	s := fold(g.sumLanes(sum, g.vector), false)
	if g.unpacked {
		dx, t := g.floats(g.f, 0, groupScale+4*b), XMM()
		VPBROADCASTD(Mem{Base: g.f.x[0], Disp: groupSums + 4*b}, t)
		VPSRAD(Imm(7), t, t)
		term := scaled(g.numbers(groupScale+4*b), dx, s)
		VADDPS(scaled(g.numbers(groupSums+4*b), dx, t), term, term)
		VADDPS(term, g.f.acc[0], g.f.acc[0])
		return
	}
	var d reg.VecVirtual
	if g.mx {
		d = g.exponents(b)
	} else {
		d = g.halves(g.f, b*g.size)
	}
	VADDPS(scaled(d, g.floats(g.f, 0, groupScale+4*b), s), g.f.acc[0], g.f.acc[0])
}

// numbers returns the f32 at disp of every lane's weights.
func (g groups) numbers(disp int) reg.VecVirtual {
	x := XMM()
	VMOVSS(Mem{Base: g.f.W(0), Disp: disp}, x)
	for l := 1; l < 4; l++ {
		VINSERTPS(Imm(uint64(l<<4)), Mem{Base: g.f.W(l), Disp: disp}, x, x)
	}
	return x
}

// exponents returns the scale of block b in every lane.
func (g groups) exponents(b int) reg.VecVirtual {
	d := XMM()
	for l := range 4 {
		if l > 0 && g.f.columns {
			VPERMILPS(Imm(0), d, d)
			break
		}
		m := g.exponent(l, b)
		if l == 0 {
			VMOVSS(m, d)
		} else {
			VINSERTPS(Imm(uint64(l<<4)), m, d, d)
		}
	}
	return d
}

// exponent returns the address of the table entry with the scale of block b of lane l.
func (g groups) exponent(l, b int) Mem {
	e, table := GP64(), GP64()
	MOVBQZX(Mem{Base: g.f.W(l), Disp: b * g.size}, e)
	LEAQ(NewDataAddr(Symbol{Name: "quantScales", Static: true}, 0), table)
	return Mem{Base: table, Index: e, Scale: 4}
}

// wide adds the products of 4 blocks. An offset makes the weights unsigned. The rounded row holds
// its sum times this offset, for subtracting it.
func (g groups) wide() {
	sums := make([][2]reg.VecVirtual, len(g.f.acc))
	for p := range 2 {
		sum := make([][4]reg.VecVirtual, len(sums))
		var v reg.VecVirtual
		for l := range 4 {
			if l == 0 || !g.f.columns {
				v = g.pair(g.f.W(l), 2*p)
			}
			for i := range sum {
				sum[i][l] = g.zero()
				VPDPBUSD(Mem{Base: g.f.X(i, l), Disp: 64 * p}, v, sum[i][l])
			}
		}
		for i := range sum {
			sums[i][p] = g.sumLanes(sum[i], g.vector)
		}
	}
	var scales, offsets reg.VecVirtual
	if g.unpacked {
		scales, offsets = g.blockNumbers(groupScale), g.blockNumbers(groupSums)
	} else {
		scales = g.weightScales()
	}
	g.addTerms(sums, 0, scales, offsets, 0)
}

// addTerms adds the terms of 4 blocks to the products. sums[i] has, for products i, the sums of
// each lane for two blocks and for the next two; each 128 bits of the vectors have the four lanes.
// The group of the rounded row starts at disp. offsets is nil for none. shift is the right shift of
// the row's sums before subtracting them; negative means that they are not subtracted.
func (g groups) addTerms(all [][2]reg.VecVirtual, disp int, scales, offsets reg.VecVirtual, shift int) {
	for i, acc := range g.f.acc {
		s, t, d := ZMM(), ZMM(), ZMM()
		VSHUFI32X4(Imm(0x88), all[i][1], all[i][0], s)
		VSHUFI32X4(Imm(0xdd), all[i][1], all[i][0], t)
		VPADDD(t, s, s)
		dx := g.rowNumbers(i, disp+groupScale)
		var sums reg.VecVirtual
		if shift >= 0 || offsets != nil {
			sums = g.rowNumbers(i, disp+groupSums)
		}
		switch {
		case shift == 0:
			VPSUBD(sums, s, s)
		case shift > 0:
			part := ZMM()
			VPSRAD(Imm(uint64(shift)), sums, part)
			VPSUBD(part, s, s)
		}
		VMULPS(dx, scales, d)
		VCVTDQ2PS(s, s)
		VMULPS(s, d, d)
		if offsets != nil {
			m := ZMM()
			VPSRAD(Imm(7), sums, sums)
			VCVTDQ2PS(sums, sums)
			VMULPS(dx, offsets, m)
			VMULPS(sums, m, m)
			VADDPS(m, d, d)
		}
		VADDPS(d.AsX(), acc, acc)
		for b := 1; b < groupLen; b++ {
			x := XMM()
			VEXTRACTF32X4(Imm(uint64(b)), d, x)
			VADDPS(x, acc, acc)
		}
	}
}

// pair returns the weights of the blocks b and b+1, plus the offset.
func (g groups) pair(w reg.Register, b int) reg.VecVirtual {
	y, v := YMM(), ZMM()
	if g.unpacked {
		VMOVDQU64(Mem{Base: w, Disp: 32 * b}, v)
		VPXORD(g.table.same(0x80), v, v)
		return v
	}
	if !g.mx {
		VMOVDQU(Mem{Base: w, Disp: b*g.size + 2}, y)
		VINSERTI64X4(Imm(1), Mem{Base: w, Disp: (b+1)*g.size + 2}, y.AsZ(), v)
		VPXORD(g.table.same(0x80), v, v)
		return v
	}
	next := YMM()
	VBROADCASTI128(Mem{Base: w, Disp: b*g.size + 1}, y)
	VBROADCASTI128(Mem{Base: w, Disp: (b+1)*g.size + 1}, next)
	VINSERTI64X4(Imm(1), next, y.AsZ(), v)
	VPSRLVQ(g.table.quads(func(i int) int { return i / 2 % 2 * 4 }), v, v)
	VPANDD(g.table.same(15), v, v)
	values := ZMM()
	VMOVDQU64(g.table.vector(func(i int) uint8 { return value(i, 12) }), values)
	VPSHUFB(v, values, v)
	return v
}

// rowNumbers returns the 4 numbers at disp of each lane's row in products i. The numbers of a
// block, of all lanes, are in the same 128 bits.
func (g groups) rowNumbers(i, disp int) reg.VecVirtual {
	v, index := ZMM(), ZMM()
	VMOVUPS(Mem{Base: g.f.X(i, 0), Disp: disp}, v.AsX())
	if !g.f.columns {
		VMOVDQU64(g.blockOfLane(), index)
	} else {
		for l := 1; l < 4; l++ {
			VINSERTF32X4(Imm(uint64(l)), Mem{Base: g.f.x[l], Disp: disp}, v, v)
		}
		VMOVDQU64(g.turned(), index)
	}
	out := ZMM()
	VPERMPS(v, index, out)
	return out
}

// blockNumbers returns the 4 numbers at disp of each lane's weights, in the order of
// rowNumbers.
func (g groups) blockNumbers(disp int) reg.VecVirtual {
	v, index, out := ZMM(), ZMM(), ZMM()
	VMOVUPS(Mem{Base: g.f.W(0), Disp: disp}, v.AsX())
	for l := 1; l < 4; l++ {
		VINSERTF32X4(Imm(uint64(l)), Mem{Base: g.f.W(l), Disp: disp}, v, v)
	}
	VMOVDQU64(g.turned(), index)
	VPERMPS(v, index, out)
	return out
}

// turned returns the indices transposing 4 numbers of each lane to 4 lanes of each number.
func (g groups) turned() Mem { return g.table.longs(func(i int) int { return i%4*4 + i/4 }) }

func (g groups) blockOfLane() Mem { return g.table.longs(func(i int) int { return i / 4 }) }

// weightScales returns the scales of 4 blocks of each lane's weights. The scales of a
// block, of all lanes, are in the same 128 bits.
func (g groups) weightScales() reg.VecVirtual {
	out := ZMM()
	if g.f.columns {
		x := XMM()
		if g.mx {
			for b := range groupLen {
				if m := g.exponent(0, b); b == 0 {
					VMOVSS(m, x)
				} else {
					VINSERTPS(Imm(uint64(b<<4)), m, x, x)
				}
			}
		} else {
			VPXORD(x, x, x)
			for b := range groupLen {
				VPINSRW(Imm(uint64(b)), Mem{Base: g.f.W(0), Disp: b * g.size}, x, x)
			}
			VCVTPH2PS(x, x)
		}
		index := ZMM()
		VMOVDQU64(g.blockOfLane(), index)
		VPERMPS(x.AsZ(), index, out)
		return out
	}
	if g.mx {
		for b := range groupLen {
			if x := g.exponents(b); b == 0 {
				VMOVAPS(x, out.AsX())
			} else {
				VINSERTF32X4(Imm(uint64(b)), x, out, out)
			}
		}
		return out
	}
	var x [2]reg.VecVirtual
	for i := range x {
		x[i] = g.zero128()
		for k := range 8 {
			VPINSRW(Imm(uint64(k)), Mem{Base: g.f.W(k % 4), Disp: (2*i + k/4) * g.size}, x[i], x[i])
		}
	}
	y := YMM()
	VINSERTI32X4(Imm(1), x[1], x[0].AsY(), y)
	VCVTPH2PS(y, out)
	return out
}
