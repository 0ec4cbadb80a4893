package main

import "fmt"

// superOf is a type of weights in blocks of 256.
type superOf struct {
	unpack func(w int) unpacked
	half   int // where d is, followed by m if there are offsets
	// offsets says whether sums of a row are multiplied with offsets of weights.
	offsets bool
}

// unpacked is a block of 256 whose scales are in registers.
type unpacked struct {
	pieces int
	// piece returns the weights that have one scale, where in a rounded row what they
	// are multiplied with lies, and their scale: lane i of a vector.
	piece func(i int) (w []value, at int, scale value, lane int)
	// sums returns what the sums of the row that lies at x add to the lane's t, and,
	// times -32, to its s; nil for nothing.
	offsets, minus32 func(x int) value
}

// super is the loop over blocks of 256.
func (p *products) super(kind string, size int, of func() superOf) {
	var s superOf
	p.function(kind, size, superRow, func() { s = of() }, func() {
		var sum, off, minus [4]value
		var u unpacked
		before := func(l int) {
			if u.offsets != nil {
				off[l] = u.offsets(p.x(l))
			}
			if u.minus32 != nil {
				minus[l] = p.shift("shl", u.minus32(p.x(l)), 5)
			}
		}
		add := func(l, i int, w []value, where int, scale value, lane int) {
			var x []value
			for k := range w {
				x = append(x, p.load(at(p.x(l), where+16*k)))
			}
			d := p.dotOf(w, x)
			if i == 0 {
				sum[l] = p.zero()
			}
			p.scaleInto(sum[l], d, scale, lane)
		}
		after := func(l int) {
			if u.minus32 != nil {
				sum[l] = p.three("sub", s4, sum[l], minus[l])
			}
		}
		if p.columns {
			u = s.unpack(p.w(0))
			for l := range 4 {
				before(l)
			}
			for i := range u.pieces {
				w, where, scale, lane := u.piece(i)
				for l := range 4 {
					add(l, i, w, where, scale, lane)
				}
			}
			for l := range 4 {
				after(l)
			}
		} else {
			for l := range 4 {
				u = s.unpack(p.w(l))
				before(l)
				for i := range u.pieces {
					w, where, scale, lane := u.piece(i)
					add(l, i, w, where, scale, lane)
				}
				after(l)
			}
		}
		y, dx := p.lanes(sum), p.floats(superScale)
		if !s.offsets {
			d := p.mul(p.halves(s.half), dx)
			p.into("fadd", s4, p.acc, p.acc, p.mul(d, y))
			return
		}
		t := p.lanes(off)
		d, m := p.halfPairs(s.half)
		y, t = p.mul(p.mul(d, dx), y), p.mul(p.mul(m, dx), t)
		p.into("fadd", s4, p.acc, p.acc, p.sub(y, t))
	})
}

// longs returns 16 words in two vectors as int32 in four.
func (p *products) longs(words [2]value) [4]value {
	return [4]value{
		p.mixed("sxtl", "4s", words[0]), p.mixed("sxtl2", "4s", words[0]),
		p.mixed("sxtl", "4s", words[1]), p.mixed("sxtl2", "4s", words[1]),
	}
}

// sumsTimes returns four sums of products of the words with the sums of a row.
func (p *products) sumsTimes(words []value) func(x int) value {
	return func(x int) value {
		var t value
		for i, w := range words {
			sums := p.load(at(x, superSums+16*i))
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
	return superOf{half: 0, offsets: true, unpack: func(w int) unpacked {
		// Scales and offsets of 6 bits, four at a time: see quant.Q4Scale. Of both, the
		// first four have 6 bits of their own, the others 4 and the 2 left over.
		p.general("MOVD 4(R%d), R%d", w, g0)
		p.general("MOVWU 12(R%d), R%d", w, g1)
		p.general("LSR $4, R%d, R%d", g1, g2)
		p.general("ORR R%d<<32, R%d, R%d", g2, g1, g1)
		p.general("AND $0x0f0f0f0f0f0f0f0f, R%d, R%d", g1, g1)
		p.general("LSR $2, R%d, R%d", g0, g2)
		p.general("AND $0x3030303030303030, R%d, R%d", g2, g2)
		p.general("ORR R%d, R%d, R%d", g2, g1, g1)
		p.general("AND $0x3f3f3f3f3f3f3f3f, R%d, R%d", g0, g0)
		first := p.mixed("uxtl", "8h", p.fromGeneral("FMOVD", g0)) // 4 scales, 4 offsets
		second := p.mixed("uxtl", "8h", p.fromGeneral("FMOVD", g1))
		scales := [2]value{p.mixed("uxtl", "4s", first), p.mixed("uxtl", "4s", second)}
		offsets := p.arrange("VZIP2", "D2", first, second)
		u := unpacked{pieces: 8, offsets: p.sumsTimes([]value{offsets})}
		var raw []value
		u.piece = func(i int) ([]value, int, value, int) {
			place := [8]int{0, 2, 1, 3, 4, 6, 5, 7}[i]
			var v []value
			if i%2 == 0 {
				raw = []value{p.load(at(w, 16+16*i)), p.load(at(w, 32+16*i))}
				for _, r := range raw {
					v = append(v, p.logic("and", r, mask))
				}
			} else {
				for _, r := range raw {
					v = append(v, p.shiftBytes("ushr", r, 4))
				}
			}
			return v, 32 * place, scales[i/4], i % 4
		}
		return u
	}}
}

func (p *products) q2k() superOf {
	mask, three := p.same(15), p.same(3)
	return superOf{half: 80, offsets: true, unpack: func(w int) unpacked {
		b := p.load(at(w, 0))
		low, high := p.logic("and", b, mask), p.shiftBytes("ushr", b, 4)
		offsets := []value{p.mixed("uxtl", "8h", high), p.mixed("uxtl2", "8h", high)}
		scales := p.longs([2]value{p.mixed("uxtl", "8h", low), p.mixed("uxtl2", "8h", low)})
		u := unpacked{pieces: 16, offsets: p.sumsTimes(offsets)}
		var raw [2]value
		u.piece = func(i int) ([]value, int, value, int) {
			part, k, half := i/8, i%8/2, i%2
			if k == 0 {
				raw[half] = p.load(at(w, 16+32*part+16*half))
			}
			v := raw[half]
			if k > 0 {
				v = p.shiftBytes("ushr", v, 2*k)
			}
			if k < 3 {
				v = p.logic("and", v, three)
			}
			place := [8]int{0, 2, 4, 6, 1, 3, 5, 7}[i/2] // 32 elements from 32(i/2) on
			return []value{v}, 32*place + 16*half, scales[i/4], i % 4
		}
		return u
	}}
}

func (p *products) q6k() superOf {
	mask, two := p.same(15), p.same(0x30)
	return superOf{half: 208, unpack: func(w int) unpacked {
		b := p.load(at(w, 192))
		words := [2]value{p.mixed("sxtl", "8h", b), p.mixed("sxtl2", "8h", b)}
		scales := p.longs(words)
		u := unpacked{pieces: 16, minus32: p.sumsTimes(words[:])}
		var low [4]value
		var high [2]value
		u.piece = func(i int) ([]value, int, value, int) {
			part, k := i/8, i%8
			var v, top value
			if k < 2 {
				high[k] = p.load(at(w, 128+32*part+16*k))
			}
			if k < 4 {
				low[k] = p.load(at(w, 64*part+16*k))
				v = p.logic("and", low[k], mask)
			} else {
				v = p.shiftBytes("ushr", low[k-4], 4)
			}
			switch h := high[k%2]; k / 2 {
			case 0:
				top = p.shiftBytes("shl", h, 4)
			case 1:
				top = p.shiftBytes("shl", h, 2)
			case 2:
				top = h
			case 3:
				top = p.shiftBytes("ushr", h, 2)
			}
			v = p.logic("orr", v, p.logic("and", top, two))
			return []value{v}, 16 * i, scales[i/4], i % 4
		}
		return u
	}}
}

// iq2 looks the book up: there is no arithmetic that makes its vectors.
func (p *products) iq2() superOf {
	return superOf{half: 0, unpack: func(w int) unpacked {
		u := unpacked{pieces: 8}
		u.piece = func(i int) ([]value, int, value, int) {
			p.general("MOVD %d(R%d), R%d", 2+8*i, w, g0)
			look := func(table, bit, bits int) value {
				p.general("UBFX $%d, R%d, $%d, R%d", bit, g0, bits, g1)
				d := p.fresh()
				p.do(func(r func(value) int) string {
					return fmt.Sprintf("FMOVD (R%d)(R%d<<3), F%d", table, g1, r(d))
				}, d)
				return d
			}
			var v []value
			for half := range 2 {
				first, second := look(quantBookAt, 16*half, 8), look(quantBookAt, 16*half+8, 8)
				plus, minus := look(quantSigns, 32+14*half, 7), look(quantSigns, 39+14*half, 7)
				v = append(v, p.mixed("mul", "16b", p.arrange("VZIP1", "D2", first, second), p.arrange("VZIP1", "D2", plus, minus)))
			}
			p.general("LSR $60, R%d, R%d", g0, g0)
			p.general("ADD R%d, R%d, R%d", g0, g0, g0)
			p.general("ADD $1, R%d, R%d", g0, g0)
			return v, 32 * i, p.fromGeneral("FMOVS", g0), 0
		}
		return u
	}}
}
