package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Products of weights having groups, quant.Group, with one row or two, without writing the groups
// to memory: with so few rows writing takes longer than the products. The bits are the same as with
// groups.

// direct writes products without groups in memory, and the functions decoding affine weights.
func direct() {
	var table bytes64
	wide, narrow := quantSet{set{name: "avx512", wide: true}, &table}, quantSet{set{name: "avx2"}, &table}
	wide.directs(shape{4, 1})
	wide.directs(shape{4, 2})
	for _, q := range []quantSet{wide, narrow} {
		q.affine(4)
		q.affine(8)
	}
	table.write()
}

// unsigned holds weights in the form that is multiplied: unsigned 8-bit numbers. To remove the
// offset that made them unsigned, the sum of a rounded row, times 128 as the row stores it, is
// shifted right by `shift` and subtracted; a negative shift means that there is no offset.
type unsigned struct {
	// scales returns the scales of 4 blocks of 32 of each lane's weights, in the order of
	// groups.rowNumbers, and offsets, nil for none. part is the group within a block of 256.
	scales func(part int) (scales, offsets reg.VecVirtual)
	// pair returns 64 weights of lane l, from block 2p on.
	pair  func(l, p int) reg.VecVirtual
	shift int
}

// direct writes a function with a loop over units of 4 blocks of 32, or of a block of 256.
func (q quantSet) direct(kind string, size, parts int, s shape, of func(g groups) unsigned) {
	bytes := size
	if parts == 1 {
		bytes *= groupLen
	}
	f := q.begin(kind, bytes, s)
	g := groups{quantSet: q, f: f, size: size}
	u := of(g)
	for part := range parts {
		sums := make([][2]reg.VecVirtual, len(f.acc))
		for p := range 2 {
			sum := make([][4]reg.VecVirtual, len(sums))
			for l := range 4 {
				v := u.pair(l, 2*part+p)
				for i := range sum {
					sum[i][l] = q.zero()
					VPDPBUSD(Mem{Base: f.X(i, l), Disp: part*groupRow + 64*p}, v, sum[i][l])
				}
			}
			for i := range sum {
				sums[i][p] = q.sumLanes(sum[i], q.vector)
			}
		}
		scales, offsets := u.scales(part)
		g.addTerms(sums, part*groupRow, scales, offsets, u.shift)
	}
	f.end(bytes, parts*groupRow)
}

// directs writes the functions of all types and, for two rows, of blocks of 32.
func (q quantSet) directs(s shape) {
	values := []int{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	iq4 := q.table.vector(func(i int) uint8 { return uint8(values[i%16] + 128) })
	look := func(v reg.VecVirtual) {
		table := ZMM()
		VMOVDQU64(iq4, table)
		VPSHUFB(v, table, v)
	}
	// A type of blocks of 32: the offsets of its highest bits and of its other bits.
	for _, t := range []struct {
		kind            string
		size, high, low int
		then            func(v reg.VecVirtual)
		shift           int
	}{
		{"Q4", 18, 0, 2, nil, 4},
		{"Q41", 20, 0, 4, nil, -1},
		{"Q5", 22, 2, 6, nil, 3},
		{"Q51", 24, 4, 8, nil, -1},
		{"IQ4NL", 18, 0, 2, look, 0},
	} {
		q.direct(t.kind, t.size, 1, s, func(g groups) unsigned {
			return unsigned{
				scales: func(int) (scales, offsets reg.VecVirtual) { return g.headNumbers(t.shift < 0) },
				pair: func(l, p int) reg.VecVirtual {
					w := g.f.W(l)
					v := g.nibblesOf(w, 2*p*t.size+t.low, (2*p+1)*t.size+t.low)
					if t.high > 0 {
						g.addFifth(w, 2*p*t.size+t.high, (2*p+1)*t.size+t.high, v)
					}
					if t.then != nil {
						t.then(v)
					}
					return v
				},
				shift: t.shift,
			}
		})
	}
	if s.x > 1 {
		return // too few registers
	}
	q.direct("Q5K", 176, 2, s, func(g groups) unsigned { return g.q5k() })
	q.direct("IQ4XS", 136, 2, s, func(g groups) unsigned { return g.iq4xs(look) })
}

// nibblesOf returns 64 numbers of 4 bits from 16 bytes at a and 16 at b.
func (g groups) nibblesOf(w reg.Register, a, b int) reg.VecVirtual {
	y, next, v := YMM(), YMM(), ZMM()
	VBROADCASTI32X4(Mem{Base: w, Disp: a}, y) // can use all 32 registers
	VBROADCASTI32X4(Mem{Base: w, Disp: b}, next)
	VINSERTI64X4(Imm(1), next, y.AsZ(), v)
	VPSRLVQ(g.table.quads(func(i int) int { return i / 2 % 2 * 4 }), v, v)
	VPANDD(g.table.same(15), v, v)
	return v
}

// addFifth adds 16 to the bytes of v where a bit of the 32 at a, or of the 32 at b, is set.
func (g groups) addFifth(w reg.Register, a, b int, v reg.VecVirtual) {
	low, high, k := GP64(), GP64(), K()
	MOVL(Mem{Base: w, Disp: a}, low.As32())
	MOVL(Mem{Base: w, Disp: b}, high.As32())
	SHLQ(Imm(32), high)
	ORQ(low, high)
	KMOVQ(high, k)
	VPADDB(g.table.same(16), v, k, v)
}

// opmask returns a register with the bits of a number.
func opmask(bits uint32) reg.OpmaskVirtual {
	r, k := GP32(), K()
	MOVL(U32(bits), r)
	KMOVD(r, k)
	return k
}

// headNumbers returns the f16 at the start of 4 blocks of each lane's weights, and with `two` the
// f16 following them. It reads nothing past the 4 blocks.
func (g groups) headNumbers(two bool) (first, second reg.VecVirtual) {
	all := ZMM()
	each := func(base int, index reg.VecVirtual, bits func(l int) uint32) {
		for l := range 4 {
			m := Mem{Base: g.f.W(l), Disp: base}
			move := func(ops ...Op) {
				if two {
					VPERMD(ops...)
				} else {
					VPERMW(ops...)
				}
			}
			if base == 0 && l == 0 {
				move(m, index, all)
			} else {
				move(m, index, opmask(bits(l)), all)
			}
		}
	}
	unit := 2
	if two {
		unit = 4
	}
	index := func(base int) reg.VecVirtual {
		at := func(i int) int { return max(0, i/4%4*g.size-base) / unit }
		v := ZMM()
		if two {
			VMOVDQU64(g.table.longs(at), v)
		} else {
			VMOVDQU64(g.table.words(at), v)
		}
		return v
	}
	if 3*g.size+unit <= 64 {
		each(0, index(0), func(l int) uint32 { return 0x1111 << l })
	} else {
		each(0, index(0), func(l int) uint32 { return 0x0011 << l })
		base := groupLen*g.size - 64
		each(base, index(base), func(l int) uint32 { return 0x1100 << l })
	}
	if !two {
		first = ZMM()
		VCVTPH2PS(all.AsY(), first)
		return first, nil
	}
	return g.halvesOf(all)
}

// halvesOf returns the f16 in the low and in the high halves of 16 words of 32 bits as f32.
func (g groups) halvesOf(all reg.VecVirtual) (low, high reg.VecVirtual) {
	y, z, shifted := YMM(), YMM(), ZMM()
	low, high = ZMM(), ZMM()
	VPMOVDW(all, y)
	VCVTPH2PS(y, low)
	VPSRLD(Imm(16), all, shifted)
	VPMOVDW(shifted, z)
	VCVTPH2PS(z, high)
	return low, high
}

func (g groups) q5k() unsigned {
	// As in q4kRows: 4 words of each row, scales followed by offsets.
	head, low, high := ZMM(), ZMM(), ZMM()
	VMOVDQU(Mem{Base: g.f.W(0)}, head.AsX())
	for l := 1; l < 4; l++ {
		VINSERTI32X4(Imm(uint64(l)), Mem{Base: g.f.W(l)}, head, head)
	}
	VPSHUFD(Imm(0xed), head, low)
	VPSRLVD(g.table.longs(func(i int) int { return i % 4 / 3 * 4 }), low, low)
	VPANDD(g.table.longs(func(i int) int { return [2]int{0x3f3f3f3f, 0x0f0f0f0f}[i%2] }), low, low)
	VPSHUFD(Imm(0x84), head, high)
	VPSRLD(Imm(2), high, high)
	VPTERNLOGD(Imm(0xf8), g.table.longs(func(i int) int { return i % 2 * 0x30303030 }), high, low)
	// The words of all rows in sequence, and their bytes transposed.
	index, bytes := ZMM(), ZMM()
	VMOVDQU64(g.table.longs(func(i int) int { return i%4*4 + i/4 }), index)
	VPERMD(low, index, bytes)
	VPSHUFB(g.table.vector(func(i int) uint8 { return uint8(i%4*4 + i%16/4) }), bytes, bytes)
	first, heads := ZMM(), ZMM()
	VMOVDQU64(g.table.longs(func(i int) int { return i % 4 * 4 }), first)
	VPERMD(head, first, heads)
	d, m := g.halvesOf(heads)
	VPXORD(g.table.longs(func(int) int { return 1 << 31 }), m, m)
	times := func(lane int, d reg.VecVirtual) reg.VecVirtual {
		x, v := XMM(), ZMM()
		VEXTRACTI32X4(Imm(uint64(lane)), bytes, x)
		VPMOVZXBD(x, v)
		VCVTDQ2PS(v, v)
		VMULPS(d, v, v)
		return v
	}
	return unsigned{
		scales: func(part int) (scales, offsets reg.VecVirtual) { return times(part, d), times(2+part, m) },
		pair: func(l, p int) reg.VecVirtual {
			v, bits := ZMM(), ZMM()
			VBROADCASTI64X4(Mem{Base: g.f.W(l), Disp: 48 + 32*p}, v)
			VPSRLVQ(g.table.quads(func(i int) int { return i / 4 * 4 }), v, v)
			VPANDD(g.table.same(15), v, v)
			VBROADCASTI64X4(Mem{Base: g.f.W(l), Disp: 16}, bits)
			VPROLVQ(g.table.quads(func(i int) int { return (4 - 2*p - i/4) & 63 }), bits, bits)
			VPTERNLOGD(Imm(0xf8), g.table.same(16), bits, v)
			return v
		},
		shift: -1,
	}
}

func (g groups) iq4xs(look func(v reg.VecVirtual)) unsigned {
	x, y, heads := XMM(), XMM(), YMM()
	VMOVQ(Mem{Base: g.f.W(0)}, x)
	VPINSRQ(Imm(1), Mem{Base: g.f.W(1)}, x, x)
	VMOVQ(Mem{Base: g.f.W(2)}, y)
	VPINSRQ(Imm(1), Mem{Base: g.f.W(3)}, y, y)
	VINSERTI128(Imm(1), y, x.AsY(), heads)
	word := func(k int) reg.VecVirtual { // word k of each row, for each block
		index, v := ZMM(), ZMM()
		VMOVDQU64(g.table.longs(func(i int) int { return i%4*2 + k }), index)
		VPERMD(heads.AsZ(), index, v)
		return v
	}
	first, second := word(0), word(1)
	half, d := YMM(), ZMM()
	VPMOVDW(first, half)
	VCVTPH2PS(half, d)
	return unsigned{
		scales: func(part int) (scales, offsets reg.VecVirtual) {
			low, high := ZMM(), ZMM()
			VPSRLVD(g.table.longs(func(i int) int { return 4 * (4*part + i/4) }), second, low)
			VPANDD(g.table.longs(func(int) int { return 15 }), low, low)
			VPSRLVD(g.table.longs(func(i int) int { return 12 + 2*(4*part+i/4) }), first, high)
			VPTERNLOGD(Imm(0xf8), g.table.longs(func(int) int { return 0x30 }), high, low)
			VPSUBD(g.table.longs(func(int) int { return 32 }), low, low)
			VCVTDQ2PS(low, low)
			VMULPS(d, low, low)
			return low, nil
		},
		pair: func(l, p int) reg.VecVirtual {
			v := g.nibblesOf(g.f.W(l), 8+32*p, 8+32*p+16)
			look(v)
			return v
		},
		shift: 0,
	}
}
