package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of type unpackArgs in package blocks, which checks them.
const (
	unpackN      = 0
	unpackGroups = 8
	unpackBlocks = 16
	unpackBook   = 24
)

// unpack writes the functions unpacking weights in blocks to groups: whole groups of 4 blocks of
// 32, or two groups of a block of 256.
func (q quantSet) unpack() {
	none := q.table.longs(func(int) int { return 1 << 31 }) // an offset of -0
	values := []int{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	iq4 := q.table.vector(func(i int) uint8 { return uint8(values[i%16]) })
	minus := func(n uint8) func(v reg.VecVirtual) {
		return func(v reg.VecVirtual) { VPSUBB(q.table.same(n), v, v) }
	}
	look := func(v reg.VecVirtual) {
		value := YMM()
		VMOVDQU(iq4, value)
		VPSHUFB(v, value, v)
	}
	// A type of blocks of 32: the offsets of its highest bits and of its other bits, and the
	// instructions decoding the bits.
	for _, t := range []struct {
		kind            string
		size, high, low int
		then            func(v reg.VecVirtual)
	}{
		{"Q4", 18, 0, 2, minus(8)},
		{"Q41", 20, 0, 4, nil},
		{"Q5", 22, 2, 6, minus(16)},
		{"Q51", 24, 4, 8, nil},
		{"IQ4NL", 18, 0, 2, look},
	} {
		f := q.unpackBegin(t.kind)
		for b := range groupLen {
			v := q.halfBytes(f.w, b*t.size+t.low)
			if t.high > 0 {
				VPOR(q.fifthBits(f.w, b*t.size+t.high), v, v)
			}
			if t.then != nil {
				t.then(v)
			}
			VMOVDQU(v, Mem{Base: f.g, Disp: 32 * b})
		}
		q.blockHalves(f, t.size, 0, groupScale)
		if t.then == nil {
			q.blockHalves(f, t.size, 2, groupSums)
		} else {
			x := XMM()
			VMOVUPS(none, x)
			VMOVUPS(x, Mem{Base: f.g, Disp: groupSums})
		}
		f.end(groupLen*t.size, groupRow)
	}
	q.unpackQ5K()
	q.unpackQ3K(none)
	q.unpackIQ3(none)
	q.unpackIQ4XS(none, look)
}

type unpackFrame struct{ n, g, w reg.Register }

// unpackBegin writes the start of a function, the instructions of `before`, which gets the
// function's argument, and the start of the loop.
func (q quantSet) unpackBegin(kind string, before ...func(t reg.Register)) unpackFrame {
	name := q.name + "Unpack" + kind
	TEXT(name, NOSPLIT, "func(t *byte)")
	Pragma("noescape")
	Doc(name + " makes groups of weights of blocks.")
	t := Load(Param("t"), GP64())
	f := unpackFrame{field(t, unpackN), field(t, unpackGroups), field(t, unpackBlocks)}
	for _, do := range before {
		do(t)
	}
	Label("loop")
	return f
}

// unpackAhead is the prefetch distance of weights in bytes: quantAhead of package blocks. The
// hardware prefetcher does not run that far ahead of loops doing as much work per byte as these.
const unpackAhead = 10 << 10

func (f unpackFrame) end(size, groups int) {
	for at := 0; at < size; at += 64 {
		PREFETCHT0(Mem{Base: f.w, Disp: unpackAhead + at})
	}
	ADDQ(I32(size), f.w)
	ADDQ(I32(groups), f.g)
	DECQ(f.n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// halfBytes returns 32 numbers of 4 bits from 16 bytes: the first 16 are in the low halves.
func (q quantSet) halfBytes(w reg.Register, disp int) reg.VecVirtual {
	low, high, v := XMM(), XMM(), YMM()
	VMOVDQU(Mem{Base: w, Disp: disp}, low)
	VPSRLW(Imm(4), low, high)
	VINSERTI128(Imm(1), high, low.AsY(), v)
	VPAND(q.table.same(15), v, v)
	return v
}

// fifthBits returns bytes that are 16 where a bit of the 32 at disp is set.
func (q quantSet) fifthBits(w reg.Register, disp int) reg.VecVirtual {
	v, bit := YMM(), YMM()
	VPBROADCASTD(Mem{Base: w, Disp: disp}, v)
	VPSHUFB(q.table.vector(func(i int) uint8 { return uint8(i / 8 % 4) }), v, v)
	VMOVDQU(q.table.vector(func(i int) uint8 { return 1 << (i % 8) }), bit)
	VPAND(bit, v, v)
	VPCMPEQB(bit, v, v)
	VPAND(q.table.same(16), v, v)
	return v
}

// blockHalves writes the f16 at disp of 4 blocks as f32.
func (q quantSet) blockHalves(f unpackFrame, size, disp, to int) {
	x := XMM()
	VPXOR(x, x, x)
	for b := range groupLen {
		VPINSRW(Imm(uint64(b)), Mem{Base: f.w, Disp: b*size + disp}, x, x)
	}
	VCVTPH2PS(x, x)
	VMOVUPS(x, Mem{Base: f.g, Disp: to})
}

// spreadHalf returns the f16 at disp as f32 in all lanes.
func (q quantSet) spreadHalf(w reg.Register, disp int) reg.VecVirtual {
	x, y := XMM(), YMM()
	VPBROADCASTW(Mem{Base: w, Disp: disp}, x)
	VCVTPH2PS(x, y)
	return y
}

// eight writes 8 numbers of a block of 256 to its two groups.
func (f unpackFrame) eight(v reg.VecVirtual, to int) {
	VMOVUPS(v.AsX(), Mem{Base: f.g, Disp: to})
	VEXTRACTF128(Imm(1), v, Mem{Base: f.g, Disp: groupRow + to})
}

// element is the destination of a block's elements 32j to 32j+31.
func (f unpackFrame) element(j int) Mem {
	return Mem{Base: f.g, Disp: j/4*groupRow + j%4*32}
}

// bitTo moves bit `from` of every byte of v to bit `to`.
func (q quantSet) bitTo(v reg.VecVirtual, from, to int) reg.VecVirtual {
	out := YMM()
	switch {
	case from < to:
		VPSLLW(Imm(uint64(to-from)), v, out)
	case from > to:
		VPSRLW(Imm(uint64(from-to)), v, out)
	default:
		VPAND(q.table.same(1<<to), v, out)
		return out
	}
	VPAND(q.table.same(1<<to), out, out)
	return out
}

func (q quantSet) unpackQ5K() {
	f := q.unpackBegin("Q5K")
	scales, offsets := q.scales6(f.w, 4)
	for _, c := range []struct {
		x        reg.VecVirtual
		half, to int
	}{{scales, 0, groupScale}, {offsets, 2, groupSums}} {
		y := YMM()
		VPMOVZXBD(c.x, y)
		VCVTDQ2PS(y, y)
		VMULPS(q.spreadHalf(f.w, c.half), y, y)
		if c.half != 0 {
			VXORPS(q.table.longs(func(int) int { return 1 << 31 }), y, y)
		}
		f.eight(y, c.to)
	}
	bits := YMM()
	VMOVDQU(Mem{Base: f.w, Disp: 16}, bits)
	for j := 0; j < 8; j += 2 {
		low, high := q.nibbles(q.bytesAt(f.w, 48+16*j))
		for i, v := range []reg.VecVirtual{low, high} {
			VPOR(q.bitTo(bits, j+i, 4), v, v)
			VMOVDQU(v, f.element(j+i))
		}
	}
	f.end(176, 2*groupRow)
}

func (q quantSet) unpackQ3K(none Mem) {
	f := q.unpackBegin("Q3K")
	// 32 - s for each 16 elements, see quant.q3Scales.
	low, high, two, scales := XMM(), XMM(), XMM(), XMM()
	VMOVQ(Mem{Base: f.w, Disp: 96}, low)
	VPSRLW(Imm(4), low, high)
	VPUNPCKLQDQ(high, low, low)
	VPAND(q.table.same(15), low, low)
	VPBROADCASTD(Mem{Base: f.w, Disp: 104}, two)
	VPSRLVD(q.table.longs(func(i int) int { return i % 4 * 2 }), two, two)
	VPAND(q.table.same(3), two, two)
	VPSLLW(Imm(4), two, two)
	VPOR(two, low, low)
	VMOVDQU(q.table.same(32), scales)
	VPSUBB(low, scales, scales)

	d, offset := q.spreadHalf(f.w, 108), YMM()
	VXORPS(q.table.longs(func(int) int { return 1 << 31 }), d, d)
	f.eight(d, groupScale)
	VMOVUPS(none, offset)
	f.eight(offset, groupSums)

	bits := q.bytesAt(f.w, 0)
	for part := range 2 {
		raw := q.bytesAt(f.w, 32+32*part)
		for k := range 4 {
			j, v := 4*part+k, YMM()
			if k == 0 {
				VPAND(q.table.same(3), raw, v)
			} else {
				VPSRLW(Imm(uint64(2*k)), raw, v)
				VPAND(q.table.same(3), v, v)
			}
			VPOR(q.bitTo(bits, j, 2), v, v)
			VPSUBB(q.table.same(4), v, v)
			var product [2]reg.VecVirtual
			for i := range product {
				x, s := v.AsX(), XMM()
				if i == 1 {
					x = XMM()
					VEXTRACTI128(Imm(1), v, x)
				}
				product[i] = YMM()
				VPMOVSXBW(x, product[i])
				VPSHUFB(q.table.same(uint8(2*j+i)), scales, s)
				scale := YMM()
				VPMOVSXBW(s, scale)
				VPMULLW(scale, product[i], product[i])
			}
			VPACKSSWB(product[1], product[0], v)
			VPERMQ(Imm(0xd8), v, v)
			VMOVDQU(v, f.element(j))
		}
	}
	f.end(110, 2*groupRow)
}

func (q quantSet) unpackIQ3(none Mem) {
	const size, at = 98, 66 // size of a block, and the offset of its signs and scales
	var book, signs reg.Register
	f := q.unpackBegin("IQ3", func(t reg.Register) {
		book, signs = field(t, unpackBook), GP64()
		LEAQ(NewDataAddr(Symbol{Name: "quantSigns", Static: true}, 0), signs)
	})
	scale, half, offset := YMM(), YMM(), YMM()
	VPSRLD(Imm(28), q.bytesAt(f.w, at), scale)
	VCVTDQ2PS(scale, scale)
	VMOVUPS(q.table.longs(func(int) int { return 0x3f000000 }), half)
	VADDPS(half, scale, scale)
	VMULPS(q.spreadHalf(f.w, 0), scale, scale)
	VMULPS(half, scale, scale)
	f.eight(scale, groupScale)
	VMOVUPS(none, offset)
	f.eight(offset, groupSums)
	for j := range 8 {
		bits := GP64()
		MOVL(Mem{Base: f.w, Disp: at + 4*j}, bits.As32())
		var v, sign [2]reg.VecVirtual
		for l := range 2 {
			v[l], sign[l] = XMM(), XMM()
			for i := range 4 {
				entry := GP64()
				MOVBLZX(Mem{Base: f.w, Disp: 2 + 8*j + 4*l + i}, entry.As32())
				if m := (Mem{Base: book, Index: entry, Scale: 4}); i == 0 {
					VMOVD(m, v[l])
				} else {
					VPINSRD(Imm(uint64(i)), m, v[l], v[l])
				}
			}
			for i := range 2 {
				entry := GP64()
				MOVL(bits.As32(), entry.As32())
				ANDL(Imm(127), entry.As32())
				SHRL(Imm(7), bits.As32())
				if m := (Mem{Base: signs, Index: entry, Scale: 8}); i == 0 {
					VMOVQ(m, sign[l])
				} else {
					VPINSRQ(Imm(1), m, sign[l], sign[l])
				}
			}
			VPSIGNB(sign[l], v[l], v[l])
		}
		y := YMM()
		VINSERTI128(Imm(1), v[1], v[0].AsY(), y)
		VMOVDQU(y, f.element(j))
	}
	f.end(size, 2*groupRow)
}

func (q quantSet) unpackIQ4XS(none Mem, look func(v reg.VecVirtual)) {
	f := q.unpackBegin("IQ4XS")
	x, low, high, offset := XMM(), YMM(), YMM(), YMM()
	VMOVD(Mem{Base: f.w, Disp: 4}, x)
	VPUNPCKLBW(x, x, x)
	VPMOVZXBD(x, low)
	VPSRLVD(q.table.longs(func(i int) int { return i % 2 * 4 }), low, low)
	VPAND(q.table.longs(func(int) int { return 15 }), low, low)
	VPBROADCASTW(Mem{Base: f.w, Disp: 2}, high.AsX())
	VPMOVZXWD(high.AsX(), high)
	VPSRLVD(q.table.longs(func(i int) int { return i % 8 * 2 }), high, high)
	VPAND(q.table.longs(func(int) int { return 3 }), high, high)
	VPSLLD(Imm(4), high, high)
	VPOR(high, low, low)
	VPSUBD(q.table.longs(func(int) int { return 32 }), low, low)
	VCVTDQ2PS(low, low)
	VMULPS(q.spreadHalf(f.w, 0), low, low)
	f.eight(low, groupScale)
	VMOVUPS(none, offset)
	f.eight(offset, groupSums)
	for j := range 8 {
		v := q.halfBytes(f.w, 8+16*j)
		look(v)
		VMOVDQU(v, f.element(j))
	}
	f.end(136, 2*groupRow)
}
