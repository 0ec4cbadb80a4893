package main

import "fmt"

// superOf describes a type of weights in blocks of 256.
type superOf struct {
	start  int // offset in a block of the weights that are read in order
	unpack func() unpacked
	half   int // offset of d in a block; m follows it if there are offsets
	// offsets tells whether sums of a row are multiplied by offsets of weights.
	offsets bool
	// turnsRows and turnsColumns are the numbers of equal iterations for the products of
	// a block, for rows and for columns. An iteration advances a row of x by `by` bytes.
	turnsRows, turnsColumns, by int
}

// unpacked is a block of 256 weights with its scales in registers.
type unpacked struct {
	// piece returns the i-th 32 weights, the place in a rounded row of their factors, and
	// the scales of both halves. These are lanes of the vector scale, which is one of
	// `scales` unless piece makes it itself.
	piece  func(i int) (w [2]value, at int, scale value, lanes [2]int)
	scales []value
	// offsets returns the contribution of the sums of the row at x to the lane's t.
	// minus32 returns their contribution, times -32, to its s. Both may be nil.
	offsets, minus32 func(x int) value
}

// super writes a function with a loop over blocks of 256.
func (p *products) super(kind string, size int, of func() superOf) {
	p.function(kind, size, func() func() {
		s := of()
		p.moved, p.turns = 0, s.turnsColumns
		if !p.columns {
			p.turns = s.turnsRows
			p.file.line("MOVD $%d, R%d", s.start, quantOffset)
		}
		return func() {
			y, t := p.superSums(s)
			dx := p.gatherAt(32, superScale-p.moved, p.xs)
			y = p.mixed("scvtf", "4s", y)
			if s.offsets {
				v := p.gatherAt(32, s.half, p.ws)
				d, m := p.halves(p.arrange("VUZP1", "H8", v, v)), p.halves(p.arrange("VUZP2", "H8", v, v))
				y = p.sub(p.mul(p.mul(d, dx), y), p.mul(p.mul(m, dx), p.mixed("scvtf", "4s", t)))
			} else {
				y = p.mul(p.mul(p.halves(p.gatherAt(16, s.half, p.ws)), dx), y)
			}
			p.into("fadd", s4, p.acc, p.acc, y)
			p.advance(p.ws, size)
			p.advance(p.xs, superRow-p.moved)
			if !p.columns {
				p.advance([]int{quantOffset}, size)
			}
		}
	})
}

// superSums returns s of every lane, and t if there are offsets.
func (p *products) superSums(s superOf) (y, t value) {
	if p.columns {
		p.general("ADD $%d, R%d, R%d", s.start, p.ws[0], quantBlock)
		sum, off := p.blockSums(s)
		if s.offsets {
			t = p.lanes(off)
		}
		return p.lanes(sum), t
	}
	y = p.zero()
	if s.offsets {
		t = p.zero()
	}
	p.general("ADD $%d, R0, R%d", quantW, quantNext)
	p.repeat("row", quantRowsLeft, 4, func() {
		p.general("MOVD.P 8(R%d), R%d", quantNext, quantBlock)
		p.general("ADD R%d, R%d", quantOffset, quantBlock)
		sum, off := p.blockSums(s)
		p.push(y, sum[0])
		if s.offsets {
			p.push(t, off[0])
		}
		if p.moved > 0 {
			p.general("SUB $%d, R%d", p.moved, p.xs[0])
			p.moved = 0
		}
	})
	return y, t
}

// blockSums returns, for each row of x, the sums of its products with one block and with
// the block's offsets.
func (p *products) blockSums(s superOf) (sum, off [4]value) {
	u := s.unpack()
	for l := range p.xs {
		sum[l] = p.zero()
	}
	p.repeat("piece", quantTurns, p.turns, func() {
		for i := range 8 / p.turns {
			w, where, scale, lanes := u.piece(i)
			for l, r := range p.xs {
				x := p.walk(r, where, s.by)
				if lanes[0] == lanes[1] {
					p.scaleInto(sum[l], p.dotOf(w[:], x[:]), scale, lanes[0])
					continue
				}
				for half, lane := range lanes {
					p.scaleInto(sum[l], p.dotOf(w[half:half+1], x[half:half+1]), scale, lane)
				}
			}
		}
		part := len(u.scales) / p.turns
		for i := range u.scales[part:] {
			p.move(u.scales[i], u.scales[part+i])
		}
	})
	if p.turns > 1 {
		p.moved = p.turns * s.by
	}
	for l, x := range p.xs {
		if u.offsets != nil {
			off[l] = u.offsets(x)
		}
		if u.minus32 != nil {
			p.into("sub", s4, sum[l], sum[l], p.shift("shl", u.minus32(x), 5))
		}
	}
	return sum, off
}

// longs returns the 16 words of two vectors as int32, in four vectors.
func (p *products) longs(words [2]value) [4]value {
	return [4]value{
		p.mixed("sxtl", "4s", words[0]), p.mixed("sxtl2", "4s", words[0]),
		p.mixed("sxtl", "4s", words[1]), p.mixed("sxtl2", "4s", words[1]),
	}
}

// sumsTimes returns a function that multiplies the words by the sums of a row at x, and
// returns four sums of these products.
func (p *products) sumsTimes(words []value) func(x int) value {
	return func(x int) value {
		var t value
		for i, w := range words {
			sums := p.load(at(x, superSums+16*i-p.moved))
			if i == 0 {
				t = p.mixed("smull", "4s", w, sums)
			} else {
				p.mixedInto("smlal", "4s", t, w, sums)
			}
			p.mixedInto("smlal2", "4s", t, w, sums)
		}
		return t
	}
}

func (p *products) q4k() superOf {
	mask := p.same(15)
	return superOf{start: 16, offsets: true, turnsRows: 1, turnsColumns: 2, by: 128, unpack: func() unpacked {
		// Scales and offsets have 6 bits and are unpacked four at a time: see
		// quant.Q4Scale. The first four of each have their 6 bits together. The others
		// have 4 bits together, and 2 in the bytes of the first four.
		p.general("MOVD -12(R%d), R%d", quantBlock, g0)
		p.general("MOVWU -4(R%d), R%d", quantBlock, g1)
		p.general("LSR $4, R%d, R%d", g1, g2)
		p.general("ORR R%d<<32, R%d, R%d", g2, g1, g1)
		p.general("AND $0x0f0f0f0f0f0f0f0f, R%d, R%d", g1, g1)
		p.general("LSR $2, R%d, R%d", g0, g2)
		p.general("AND $0x3030303030303030, R%d, R%d", g2, g2)
		p.general("ORR R%d, R%d, R%d", g2, g1, g1)
		p.general("AND $0x3f3f3f3f3f3f3f3f, R%d, R%d", g0, g0)
		first := p.mixed("uxtl", "8h", p.fromGeneral("FMOVD", g0)) // 4 scales, 4 offsets
		second := p.mixed("uxtl", "8h", p.fromGeneral("FMOVD", g1))
		scales := []value{p.mixed("uxtl", "4s", first), p.mixed("uxtl", "4s", second)}
		offsets := p.arrange("VZIP2", "D2", first, second)
		u := unpacked{scales: scales, offsets: p.sumsTimes([]value{offsets})}
		var raw [2]value
		u.piece = func(i int) (v [2]value, at int, scale value, lanes [2]int) {
			place := [8]int{0, 2, 1, 3, 4, 6, 5, 7}[i]
			if i%2 == 0 {
				raw = p.walk(quantBlock, 16*i, 64)
			}
			for half, r := range raw {
				if i%2 == 0 {
					v[half] = p.logic("and", r, mask)
				} else {
					v[half] = p.shiftBytes("ushr", r, 4)
				}
			}
			return v, 32 * place, scales[i/4], [2]int{i % 4, i % 4}
		}
		return u
	}}
}

func (p *products) q2k() superOf {
	mask, three := p.same(15), p.same(3)
	return superOf{start: 16, half: 80, offsets: true, turnsRows: 1, turnsColumns: 2, by: 32, unpack: func() unpacked {
		b := p.load(at(quantBlock, -16))
		low, high := p.logic("and", b, mask), p.shiftBytes("ushr", b, 4)
		offsets := []value{p.mixed("uxtl", "8h", high), p.mixed("uxtl2", "8h", high)}
		scales := p.longs([2]value{p.mixed("uxtl", "8h", low), p.mixed("uxtl2", "8h", low)})
		u := unpacked{scales: scales[:], offsets: p.sumsTimes(offsets)}
		var raw [2]value
		u.piece = func(i int) (v [2]value, at int, scale value, lanes [2]int) {
			part, k := i/4, i%4
			if k == 0 {
				raw = p.walk(quantBlock, 32*part, 32)
			}
			for half := range v {
				v[half] = raw[half]
				if k > 0 {
					v[half] = p.shiftBytes("ushr", v[half], 2*k)
				}
				if k < 3 {
					v[half] = p.logic("and", v[half], three)
				}
			}
			place := [8]int{0, 2, 4, 6, 1, 3, 5, 7}[i]
			return v, 32 * place, scales[i/2], [2]int{2 * i % 4, 2*i%4 + 1}
		}
		return u
	}}
}

func (p *products) q6k() superOf {
	mask, two := p.same(15), p.same(0x30)
	return superOf{half: 208, turnsRows: 1, turnsColumns: 2, by: 128, unpack: func() unpacked {
		b := p.load(at(quantBlock, 192))
		p.general("ADD $128, R%d, R%d", quantBlock, quantFurther)
		words := [2]value{p.mixed("sxtl", "8h", b), p.mixed("sxtl2", "8h", b)}
		scales := p.longs(words)
		u := unpacked{scales: scales[:], minus32: p.sumsTimes(words[:])}
		var low [2][2]value
		var high [2]value
		u.piece = func(i int) (v [2]value, at int, scale value, lanes [2]int) {
			part, k := i/4, i%4
			if k == 0 {
				high = p.walk(quantFurther, 32*part, 32)
			}
			if k < 2 {
				low[k] = p.walk(quantBlock, 64*part+32*k, 64)
			}
			for half, h := range high {
				if k < 2 {
					v[half] = p.logic("and", low[k][half], mask)
				} else {
					v[half] = p.shiftBytes("ushr", low[k-2][half], 4)
				}
				switch k {
				case 0, 1:
					h = p.shiftBytes("shl", h, 4-2*k)
				case 3:
					h = p.shiftBytes("ushr", h, 2)
				}
				v[half] = p.logic("orr", v[half], p.logic("and", h, two))
			}
			return v, 32 * i, scales[i/2], [2]int{2 * i % 4, 2*i%4 + 1}
		}
		return u
	}}
}

// iq2 looks weights up in the book, because they cannot be computed.
func (p *products) iq2() superOf {
	return superOf{start: 2, turnsRows: 4, turnsColumns: 4, by: 64, unpack: func() unpacked {
		u := unpacked{}
		u.piece = func(i int) (v [2]value, at int, scale value, lanes [2]int) {
			suffix, from := p.step(quantBlock, 8*i, 16)
			p.general("MOVD%s %v, R%d", suffix, from, g0)
			look := func(table, bit, bits int) value {
				p.general("UBFX $%d, R%d, $%d, R%d", bit, g0, bits, g1)
				d := p.fresh()
				p.do(func(r func(value) int) string {
					return fmt.Sprintf("FMOVD (R%d)(R%d<<3), F%d", table, g1, r(d))
				}, d)
				return d
			}
			for half := range v {
				first, second := look(quantBookAt, 16*half, 8), look(quantBookAt, 16*half+8, 8)
				plus, minus := look(quantSigns, 32+14*half, 7), look(quantSigns, 39+14*half, 7)
				v[half] = p.mixed("mul", "16b", p.arrange("VZIP1", "D2", first, second), p.arrange("VZIP1", "D2", plus, minus))
			}
			p.general("LSR $59, R%d, R%d", g0, g0) // twice the upper 4 bits, plus 1
			p.general("ORR $1, R%d, R%d", g0, g0)
			return v, 32 * i, p.fromGeneral("FMOVS", g0), lanes
		}
		return u
	}}
}
