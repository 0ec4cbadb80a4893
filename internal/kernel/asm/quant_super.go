package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// unpacked is a block of 256 weights whose scales are in registers.
type unpacked struct {
	pieces int
	// piece returns unsigned weights, their scales as int16, the place in a rounded row
	// of what they are multiplied with, and their signs, or nil if there are none.
	piece func(i int) (q, scale reg.VecVirtual, at int, sign reg.VecVirtual)
	// finish adds to a lane's sum what does not come from pieces. It may be nil.
	finish func(x reg.Register, sum reg.VecVirtual)
	// offsets are the weights' offsets, with which the sums of the rounded row are
	// multiplied. It may be nil.
	offsets reg.VecVirtual
	// half is where d is in a block. m follows it if there are offsets.
	half int
}

// super writes a function with a loop over blocks of 256.
func (q quantSet) super(kind string, size int, s shape, unpack func(f frame, w reg.Register) unpacked) {
	if s.w == 4 && kind == rolled {
		q.superLanes(size, s, unpack)
		return
	}
	f := q.begin(kind, size, s)
	sum, off := make([][4]reg.VecVirtual, len(f.acc)), make([][4]reg.VecVirtual, len(f.acc))
	var u unpacked
	lane := func(k, l, i int, v, scale reg.VecVirtual, at int, sign reg.VecVirtual) {
		x, p := Mem{Base: f.X(k, l), Disp: at}, q.vector()
		if sign != nil {
			y := q.vector()
			VMOVDQU(x, y)
			VPSIGNB(sign, y, y)
			VPMADDUBSW(y, v, p)
		} else {
			VPMADDUBSW(x, v, p)
		}
		switch {
		case i == 0:
			sum[k][l] = q.vector()
			VPMADDWD(scale, p, sum[k][l])
		case q.wide:
			VPDPWSSD(scale, p, sum[k][l])
		default:
			VPMADDWD(scale, p, p)
			VPADDD(p, sum[k][l], sum[k][l])
		}
	}
	after := func(k, l int) {
		if u.finish != nil {
			u.finish(f.X(k, l), sum[k][l])
		}
		if u.offsets != nil {
			off[k][l] = like(u.offsets)
			VPMADDWD(Mem{Base: f.X(k, l), Disp: superSums}, u.offsets, off[k][l])
		}
	}
	// For each row of weights, and for the products and lanes that it is in:
	for l := range f.w {
		u = unpack(f, f.w[l])
		each := func(do func(k, l int)) {
			for k := range f.acc {
				do(k, l)
			}
			if f.columns {
				for l := 1; l < 4; l++ {
					do(0, l)
				}
			}
		}
		for i := range u.pieces {
			v, scale, at, sign := u.piece(i)
			each(func(k, l int) { lane(k, l, i, v, scale, at, sign) })
		}
		each(after)
	}
	var d, m reg.VecVirtual
	if u.offsets == nil {
		d = q.halves(f, u.half)
	} else {
		d, m = q.halfPairs(f, u.half)
	}
	for k, acc := range f.acc {
		s, dx := fold(q.sumLanes(sum[k], q.vector), q.wide), q.floats(f, k, superScale)
		term := scaled(d, dx, s)
		if u.offsets != nil {
			t := q.sumLanes(off[k], func() reg.VecVirtual { return like(off[k][0]) })
			if t.Size() > 16 {
				t = fold(t, false)
			}
			VSUBPS(scaled(m, dx, t), term, term)
		}
		VADDPS(term, acc, acc)
	}
	f.end(size, superRow)
}

// rolled is the type for which a loop over the rows of weights costs nothing, since the work
// on a row is long.
const rolled = "IQ2"

// superLanes is super with a loop over the rows of weights. It keeps the sums and d of each
// row on the stack. It is for a type without offsets and without finish.
func (q quantSet) superLanes(size int, s shape, unpack func(f frame, w reg.Register) unpacked) {
	var sums, halves Mem
	w, done, at, d := GP64(), GP64(), GP64(), GP32()
	f := q.begin(rolled, size, s, func() {
		sums, halves = AllocLocal(4*32), AllocLocal(8)
		XORQ(done, done)
	})
	f.w = []reg.Register{w}
	XORQ(at, at) // 8 bytes for each lane
	Label("lane")
	MOVQ(Mem{Base: f.t, Disp: quantW, Index: at, Scale: 1}, w)
	ADDQ(done, w)
	u, sum := unpack(f, w), YMM()
	for i := range u.pieces {
		v, scale, where, sign := u.piece(i)
		x, p := YMM(), YMM()
		VMOVDQU(Mem{Base: f.x[0], Disp: where}, x)
		VPSIGNB(sign, x, x)
		VPMADDUBSW(x, v, p)
		if i == 0 {
			VPMADDWD(scale, p, sum)
			continue
		}
		VPMADDWD(scale, p, p)
		VPADDD(p, sum, sum)
	}
	VMOVDQU(sum, sums.Idx(at, 4))
	MOVWLZX(Mem{Base: w, Disp: u.half}, d)
	SHRQ(Imm(2), at)
	MOVW(d.As16(), halves.Idx(at, 1))
	SHLQ(Imm(2), at)
	ADDQ(Imm(8), at)
	CMPQ(at, Imm(32))
	JNE(LabelRef("lane"))
	var all [4]reg.VecVirtual
	for l := range all {
		all[l] = YMM()
		VMOVDQU(sums.Offset(32*l), all[l])
	}
	half := XMM()
	VMOVQ(halves, half)
	VCVTPH2PS(half, half)
	VADDPS(scaled(half, q.floats(f, 0, superScale), fold(q.sumLanes(all, q.vector), false)), f.acc[0], f.acc[0])
	ADDQ(I32(size), done)
	f.w = nil
	f.end(size, superRow)
}

// like returns a register of v's size.
func like(v reg.VecVirtual) reg.VecVirtual {
	switch v.Size() {
	case 16:
		return XMM()
	case 32:
		return YMM()
	}
	return ZMM()
}

// nibbles returns m & 15 and m >> 4 & 15 for each byte.
func (q quantSet) nibbles(m reg.VecVirtual) (low, high reg.VecVirtual) {
	mask := q.table.same(15)
	low, high = q.vector(), q.vector()
	VPSRLW(Imm(4), m, high)
	if q.wide {
		VPANDD(mask, m, low)
		VPANDD(mask, high, high)
	} else {
		VPAND(mask, m, low)
		VPAND(mask, high, high)
	}
	return low, high
}

func (q quantSet) bytesAt(w reg.Register, disp int) reg.VecVirtual {
	v := q.vector()
	VMOVUPS(Mem{Base: w, Disp: disp}, v)
	return v
}

// spread returns 16-bit scales for a vector of weights: the i-th 16 bits have scale f(i). v
// has the scales in its lowest bits, as int16 with AVX-512 and as bytes with AVX2.
func (q quantSet) spread(v reg.VecVirtual, f func(i int) int) reg.VecVirtual {
	out := q.vector()
	if q.wide {
		index := ZMM()
		VMOVDQU64(q.table.words(f), index)
		VPERMW(v.AsZ(), index, out)
		return out
	}
	x := XMM()
	VPSHUFB(q.table.vector(func(i int) uint8 { return uint8(f(i % 16)) }), v.AsX(), x)
	VPMOVSXBW(x, out)
	return out
}

// scaleWords prepares bytes of scales for spread.
func (q quantSet) scaleWords(x reg.VecVirtual) reg.VecVirtual {
	if !q.wide {
		return x
	}
	y := YMM()
	VPMOVSXBW(x, y)
	return y
}

func (q quantSet) q4k(f frame, w reg.Register) unpacked {
	// Scales and offsets of 6 bits, four at a time: see quant.Q4Scale.
	a, b, c := GP32(), GP32(), GP32()
	MOVL(Mem{Base: w, Disp: 4}, a)
	MOVL(Mem{Base: w, Disp: 8}, b)
	MOVL(Mem{Base: w, Disp: 12}, c)
	four := func(low reg.GPVirtual, shift uint64) reg.VecVirtual {
		top, rest := GP32(), GP32()
		MOVL(low, top)
		SHRL(Imm(6), top)
		ANDL(U32(0x03030303), top)
		SHLL(Imm(4), top)
		MOVL(c, rest)
		if shift > 0 {
			SHRL(Imm(shift), rest)
		}
		ANDL(U32(0x0f0f0f0f), rest)
		ORL(rest, top)
		ANDL(U32(0x3f3f3f3f), low)
		x := XMM()
		VMOVD(low, x)
		VPINSRD(Imm(1), top, x, x)
		return x
	}
	scales, offsets := four(a, 0), four(b, 4)
	words := q.scaleWords(scales)
	VPMOVZXBW(offsets, offsets)
	u := unpacked{pieces: 256 / q.bytes(), offsets: offsets, half: 0}
	var high reg.VecVirtual
	u.piece = func(i int) (reg.VecVirtual, reg.VecVirtual, int, reg.VecVirtual) {
		var v reg.VecVirtual
		if i%2 == 0 {
			v, high = q.nibbles(q.bytesAt(w, 16+i/2*q.bytes()))
		} else {
			v = high
		}
		if q.wide { // 32j in the first half, 32(j+2) in the second
			j := i/2*4 + i%2
			return v, q.spread(words, func(k int) int { return j + k/16*2 }), 64 * i, nil
		}
		place := [8]int{0, 2, 1, 3, 4, 6, 5, 7}[i]
		return v, q.spread(words, func(int) int { return i }), 32 * place, nil
	}
	return u
}

func (q quantSet) q2k(f frame, w reg.Register) unpacked {
	b, scales, offsets := XMM(), XMM(), YMM()
	mask := q.table.same(15)
	VMOVDQU(Mem{Base: w}, b)
	VPAND(mask, b, scales)
	VPSRLW(Imm(4), b, b)
	VPAND(mask, b, b)
	VPMOVZXBW(b, offsets)
	words := q.scaleWords(scales)
	u := unpacked{pieces: 256 / q.bytes(), offsets: offsets, half: 80}
	var raw [2]reg.VecVirtual
	for i := range 64 / q.bytes() {
		raw[i] = q.bytesAt(w, 16+i*q.bytes())
	}
	u.piece = func(i int) (reg.VecVirtual, reg.VecVirtual, int, reg.VecVirtual) {
		part, k := 0, i // 32 elements from 32k on of a part, or of both parts if wide
		if !q.wide {
			part, k = i/4, i%4
		}
		v := q.vector()
		from := raw[part]
		if k > 0 {
			VPSRLW(Imm(uint64(2*k)), from, v)
			from = v
		}
		if q.wide {
			VPANDD(q.table.same(3), from, v)
			return v, q.spread(words, func(j int) int { return 2*k + j/8%2 + j/16*8 }), 64 * k, nil
		}
		VPAND(q.table.same(3), from, v)
		return v, q.spread(words, func(j int) int { return 8*part + 2*k + j/8 }), 32 * (2*k + part), nil
	}
	return u
}

func (q quantSet) q6k(f frame, w reg.Register) unpacked {
	scales := XMM()
	VMOVDQU(Mem{Base: w, Disp: 192}, scales)
	words := q.scaleWords(scales)
	u := unpacked{pieces: 256 / q.bytes(), half: 208}
	// This subtracts the 32 that is added to every weight.
	u.finish = func(x reg.Register, sum reg.VecVirtual) {
		all := words
		if !q.wide {
			all = YMM()
			VPMOVSXBW(scales, all)
		}
		y := YMM()
		VPMADDWD(Mem{Base: x, Disp: superSums}, all, y)
		VPSLLD(Imm(5), y, y)
		if q.wide {
			VPSUBD(y.AsZ(), sum, sum)
		} else {
			VPSUBD(y, sum, sum)
		}
	}
	if q.wide {
		var high, bits reg.VecVirtual
		u.piece = func(i int) (reg.VecVirtual, reg.VecVirtual, int, reg.VecVirtual) {
			var v reg.VecVirtual
			two := ZMM()
			if i%2 == 0 {
				v, high = q.nibbles(q.bytesAt(w, 64*(i/2)))
				bits = ZMM()
				VBROADCASTI64X4(Mem{Base: w, Disp: 128 + 32*(i/2)}, bits)
				VPSLLVQ(q.table.quads(func(k int) int { return 4 - k/4*2 }), bits, two)
			} else {
				v = high
				VPSRLVQ(q.table.quads(func(k int) int { return k / 4 * 2 }), bits, two)
			}
			VPTERNLOGD(Imm(0xf8), q.table.same(0x30), two, v) // v | two & 0x30
			return v, q.spread(words, func(k int) int { return 4*i + k/8 }), 64 * i, nil
		}
		return u
	}
	var high [2]reg.VecVirtual
	var bits reg.VecVirtual
	u.piece = func(i int) (reg.VecVirtual, reg.VecVirtual, int, reg.VecVirtual) {
		part, k := i/4, i%4
		var v reg.VecVirtual
		if k < 2 {
			v, high[k] = q.nibbles(q.bytesAt(w, 64*part+32*k))
		} else {
			v = high[k-2]
		}
		if k == 0 {
			bits = q.bytesAt(w, 128+32*part)
		}
		two, from := YMM(), bits
		switch k {
		case 0, 1:
			VPSLLW(Imm(uint64(4-2*k)), bits, two)
			from = two
		case 3:
			VPSRLW(Imm(2), bits, two)
			from = two
		}
		VPAND(q.table.same(0x30), from, two)
		VPOR(two, v, v)
		return v, q.spread(words, func(j int) int { return 2*i + j/8 }), 32 * i, nil
	}
	return u
}

// iq2 looks weights up in the book, since no arithmetic gives them.
func (q quantSet) iq2(f frame, w reg.Register) unpacked {
	u := unpacked{pieces: 8, half: 0}
	book := field(f.t, quantBook)
	signs := GP64()
	LEAQ(NewDataAddr(Symbol{Name: "quantSigns", Static: true}, 0), signs)
	u.piece = func(i int) (reg.VecVirtual, reg.VecVirtual, int, reg.VecVirtual) {
		codes, bits := GP64(), GP64()
		MOVL(Mem{Base: w, Disp: 2 + 8*i}, codes.As32())
		MOVL(Mem{Base: w, Disp: 6 + 8*i}, bits.As32())
		look := func(table, from reg.Register, mask, shift uint64) reg.VecVirtual {
			var x [2]reg.VecVirtual
			for l := range 4 {
				at := GP64()
				MOVQ(from, at)
				ANDQ(U32(mask), at)
				if l < 3 {
					SHRQ(Imm(shift), from)
				}
				m := Mem{Base: table, Index: at, Scale: 8}
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
		v := look(book, codes, 255, 8)
		sign := look(signs, bits, 127, 7)
		SHRQ(Imm(7), bits) // in all 28: bits was shifted by 21 before
		LEAL(Mem{Base: bits, Index: bits, Scale: 1, Disp: 1}, bits.As32())
		x, scale := XMM(), YMM()
		VMOVD(bits.As32(), x)
		VPBROADCASTW(x, scale)
		return v, scale, 32 * i, sign
	}
	return u
}
