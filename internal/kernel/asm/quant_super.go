package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// unpacked is a block of 256 weights with its scales in registers.
type unpacked struct {
	pieces int
	// piece returns unsigned weights, their scales as int16, and the offset of their factors in a
	// rounded row.
	piece func(i int) (q, scale reg.VecVirtual, at int)
	// finish adds the remaining terms to a lane's sum. It may be nil.
	finish func(x reg.Register, sum reg.VecVirtual)
	// offsets are the weights' offsets, to be multiplied with the sums of the rounded row. It may
	// be nil.
	offsets reg.VecVirtual
	// half is the offset of d in a block. m follows it if there are offsets.
	half int
}

// super writes a function with a loop over blocks of 256.
func (q quantSet) super(kind string, size int, s shape, unpack func(f frame, w reg.Register) unpacked) {
	f := q.begin(kind, size, s)
	sum, off := make([][4]reg.VecVirtual, len(f.acc)), make([][4]reg.VecVirtual, len(f.acc))
	var u unpacked
	lane := func(k, l, i int, v, scale reg.VecVirtual, at int) {
		p := q.vector()
		VPMADDUBSW(Mem{Base: f.X(k, l), Disp: at}, v, p)
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
	// For each row of weights, and for its products and lanes:
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
			v, scale, at := u.piece(i)
			each(func(k, l int) { lane(k, l, i, v, scale, at) })
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

// spread returns 16-bit scales for a vector of weights: the i-th 16 bits have scale f(i). v has the
// scales in its lowest bits, as int16 with AVX-512 and as bytes with AVX2.
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

// scales6 returns 8 scales and 8 offsets of 6 bits as bytes, four at a time: see
// quant.Q4Scale.
func (q quantSet) scales6(w reg.Register, disp int) (scales, offsets reg.VecVirtual) {
	a, b, c := GP32(), GP32(), GP32()
	MOVL(Mem{Base: w, Disp: disp}, a)
	MOVL(Mem{Base: w, Disp: disp + 4}, b)
	MOVL(Mem{Base: w, Disp: disp + 8}, c)
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
	return four(a, 0), four(b, 4)
}

func (q quantSet) q4k(f frame, w reg.Register) unpacked {
	scales, offsets := q.scales6(w, 4)
	words := q.scaleWords(scales)
	VPMOVZXBW(offsets, offsets)
	u := unpacked{pieces: 256 / q.bytes(), offsets: offsets, half: 0}
	var high reg.VecVirtual
	u.piece = func(i int) (reg.VecVirtual, reg.VecVirtual, int) {
		var v reg.VecVirtual
		if i%2 == 0 {
			v, high = q.nibbles(q.bytesAt(w, 16+i/2*q.bytes()))
		} else {
			v = high
		}
		if q.wide { // 32j in the first half, 32(j+2) in the second
			j := i/2*4 + i%2
			return v, q.spread(words, func(k int) int { return j + k/16*2 }), 64 * i
		}
		place := [8]int{0, 2, 1, 3, 4, 6, 5, 7}[i]
		return v, q.spread(words, func(int) int { return i }), 32 * place
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
	u.piece = func(i int) (reg.VecVirtual, reg.VecVirtual, int) {
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
			return v, q.spread(words, func(j int) int { return 2*k + j/8%2 + j/16*8 }), 64 * k
		}
		VPAND(q.table.same(3), from, v)
		return v, q.spread(words, func(j int) int { return 8*part + 2*k + j/8 }), 32 * (2*k + part)
	}
	return u
}

func (q quantSet) q6k(f frame, w reg.Register) unpacked {
	scales := XMM()
	VMOVDQU(Mem{Base: w, Disp: 192}, scales)
	words := q.scaleWords(scales)
	u := unpacked{pieces: 256 / q.bytes(), half: 208}
	// This subtracts the 32 added to every weight.
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
		u.piece = func(i int) (reg.VecVirtual, reg.VecVirtual, int) {
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
			return v, q.spread(words, func(k int) int { return 4*i + k/8 }), 64 * i
		}
		return u
	}
	var high [2]reg.VecVirtual
	var bits reg.VecVirtual
	u.piece = func(i int) (reg.VecVirtual, reg.VecVirtual, int) {
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
		return v, q.spread(words, func(j int) int { return 2*i + j/8 }), 32 * i
	}
	return u
}
