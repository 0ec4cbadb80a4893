package main

import "fmt"

// superOf is a type of weights in blocks of 256.
type superOf struct {
	unpack func(w int) unpacked
	half   int // where d is, followed by m if there are offsets
	odd    int // 2 if no bytes are behind d, else 0
	// How far the second half of a block is behind the first: of its weights, or the lower
	// bits of them, of the upper bits if these are apart, and of a rounded row.
	low, high, row int
	// offsets says whether sums of a row are multiplied with offsets of weights.
	offsets bool
}

// unpacked is a block of 256 whose scales are in registers.
type unpacked struct {
	pieces int
	scales []value // of all pieces; none if the pieces make their own
	// piece returns the weights that have one scale, where in a rounded row what they
	// are multiplied with lies, and their scale: lane i of a vector. The block lies at w,
	// and its upper bits as if it were at high.
	piece func(i int, scales []value, w, high int) (v []value, at int, scale value, lane int)
	// words is what the sums of a row are multiplied with and added to the lane's t if
	// there are offsets, or else, times -32, to its s; none for nothing.
	words []value
}

// super is the loop over blocks of 256.
func (p *products) super(kind string, size int, of func() superOf) {
	if p.columns {
		p.superColumns(kind, size, of)
		return
	}
	p.superRows(kind, size, of)
}

// superRows has a loop over the four lanes, which leave their integers in the frame, and
// their f16 in a register.
func (p *products) superRows(kind string, size int, of func() superOf) {
	var s superOf
	f := p.file
	f.frame = 128
	p.begin(kind, func() { s = of() })
	f.frame = 0
	halves := p.keep()
	f.line("MOVD ZR, R%d", quantDone)
	p.unit(4 * size)
	f.line("ADD $8, RSP, R%d", quantInts)
	f.line("ADD $%d, R0, R%d", quantW, quantNext)
	f.line("MOVD $4, R%d", quantLanes)
	f.loop("lane")
	f.line("MOVD.P 8(R%d), R%d", quantNext, quantRowsW)
	f.line("ADD R%d, R%d, R%d", quantDone, quantRowsW, quantRowsW)
	p.part(func() {
		u, x := s.unpack(quantRowsW), p.x(0)
		// 4 bytes of this lane move those of the lanes before down.
		four := p.loadAs("FMOVS", at(quantRowsW, s.half-s.odd))
		p.do(func(r func(value) int) string {
			return fmt.Sprintf("VEXT $4, V%d.B16, V%d.B16, V%d.B16", r(four), r(halves), r(halves))
		}, four, halves)
		var times value
		if u.words != nil {
			times = p.sumsTimes(u.words, x, superSums)
		}
		sum, row := p.zero(), rowOf{at: x, from: -1}
		for i := range u.pieces {
			w, where, scale, lane := u.piece(i, u.scales, quantRowsW, quantRowsW)
			p.scaleInto(sum, p.dotWith(w, &row, where), scale, lane)
		}
		if s.offsets {
			p.do(func(r func(value) int) string {
				return fmt.Sprintf("FSTPQ.P (F%d, F%d), 32(R%d)", r(sum), r(times), quantInts)
			}, sum, times)
			return
		}
		if u.words != nil {
			sum = p.three("sub", s4, sum, p.shift("shl", times, 5))
		}
		p.storeAs("FMOVQ.P", sum, at(quantInts, 16))
	})
	f.line("SUBS $1, R%d, R%d", quantLanes, quantLanes)
	f.line("BNE lane")
	p.part(func() {
		var sum, off [4]value
		if s.offsets {
			for l := range sum {
				sum[l], off[l] = p.loadPair(at(quantInts, 32*(l-4)))
			}
		} else {
			sum[0], sum[1] = p.loadPair(at(quantInts, -64))
			sum[2], sum[3] = p.loadPair(at(quantInts, -32))
		}
		y, dx := p.lanes(sum), p.floats(superScale)
		if s.offsets {
			d, m := p.pairOf(halves)
			p.addOffset(d, m, dx, y, p.lanes(off))
			return
		}
		d := p.mixed("fcvtl", "4s", p.arrange(map[int]string{0: "VUZP1", 2: "VUZP2"}[s.odd], "H8", halves, halves))
		p.into("fadd", s4, p.acc, p.acc, p.mul(p.mul(d, dx), y))
	})
	f.line("ADD $%d, R%d", size, quantDone)
	f.line("ADD $%d, R%d", superRow, quantRowsX)
	p.end()
}

// rowOf is what has been loaded of a rounded row: two vectors at a time.
type rowOf struct {
	at    int
	ready [2]value
	from  int // where ready lies, -1 for none
}

// dotWith is dotOf of the part of a rounded row that lies at `where`.
func (p *products) dotWith(w []value, row *rowOf, where int) value {
	var x []value
	for k := range w {
		where := where + 16*k
		if from := where &^ 31; row.from != from {
			row.ready[0], row.ready[1] = p.loadPair(at(row.at, from))
			row.from = from
		}
		x = append(x, row.ready[where/16%2])
	}
	return p.dotOf(w, x)
}

// addOffset adds (d·dx)·s - (m·dx)·t.
func (p *products) addOffset(d, m, dx, s, t value) {
	y, z := p.mul(p.mul(d, dx), s), p.mul(p.mul(m, dx), t)
	p.into("fadd", s4, p.acc, p.acc, p.sub(y, z))
}

// superColumns takes each piece of the weights with four rows, in a loop over both halves
// of a block.
func (p *products) superColumns(kind string, size int, of func() superOf) {
	var s superOf
	f := p.file
	p.begin(kind, func() { s = of() })
	var sum, scales, offsets [4]value
	for _, v := range [3]*[4]value{&sum, &scales, &offsets} {
		for i := range v {
			v[i] = p.keep()
		}
	}
	p.unit(size)
	w := p.w(0)
	var u unpacked
	p.part(func() {
		u = s.unpack(w)
		for i, scale := range u.scales {
			p.move(scales[i], scale)
		}
		for i := 0; s.offsets && i < len(u.words); i++ {
			p.move(offsets[i], u.words[i])
		}
		zero := p.zero()
		for l := range sum {
			if s.offsets || u.words == nil {
				p.do(func(r func(value) int) string { return encodeZero(r(sum[l])).String() }, sum[l])
				continue
			}
			minus := p.shift("shl", p.sumsTimes(u.words, p.x(l), superSums), 5)
			p.into("sub", s4, sum[l], zero, minus)
		}
	})
	high := w
	if s.high != 0 {
		high = quantHigh
		f.line("MOVD R%d, R%d", w, high)
	}
	f.line("MOVD $2, R%d", quantLanes)
	f.loop("half")
	p.part(func() {
		var rows [4]rowOf
		for l := range rows {
			rows[l] = rowOf{at: p.x(l), from: -1}
		}
		for i := range u.pieces / 2 {
			v, where, scale, lane := u.piece(i, scales[:], w, high)
			for l := range sum {
				p.scaleInto(sum[l], p.dotWith(v, &rows[l], where), scale, lane)
			}
		}
		for i := range len(u.scales) / 2 {
			p.move(scales[i], scales[len(u.scales)/2+i])
		}
	})
	f.line("ADD $%d, R%d", s.low, w)
	if s.high != 0 {
		f.line("ADD $%d, R%d", s.high, high)
	}
	for l := range sum {
		f.line("ADD $%d, R%d", s.row, p.x(l))
	}
	f.line("SUBS $1, R%d, R%d", quantLanes, quantLanes)
	f.line("BNE half")
	p.part(func() {
		y, dx := p.lanes(sum), p.floats(superScale-2*s.row)
		if !s.offsets {
			d := p.mul(p.halves(s.half-2*s.low), dx)
			p.into("fadd", s4, p.acc, p.acc, p.mul(d, y))
			return
		}
		var off [4]value
		for l := range off {
			off[l] = p.sumsTimes(offsets[:len(u.words)], p.x(l), superSums-2*s.row)
		}
		t := p.lanes(off)
		d, m := p.halfPairs(s.half - 2*s.low)
		p.addOffset(d, m, dx, y, t)
	})
	f.line("ADD $%d, R%d", size-2*s.low, w)
	for l := range sum {
		f.line("ADD $%d, R%d", superRow-2*s.row, p.x(l))
	}
	p.end()
}

// longs returns 16 words in two vectors as int32 in four.
func (p *products) longs(words [2]value) [4]value {
	return [4]value{
		p.mixed("sxtl", "4s", words[0]), p.mixed("sxtl2", "4s", words[0]),
		p.mixed("sxtl", "4s", words[1]), p.mixed("sxtl2", "4s", words[1]),
	}
}

// sumsTimes returns four sums of products of the words with the sums of a row, which lie
// at disp.
func (p *products) sumsTimes(words []value, row, disp int) value {
	var t value
	for i, w := range words {
		sums := p.load(at(row, disp+16*i))
		if i == 0 {
			t = p.mixed("smull", "4s", w, sums)
		} else {
			p.mixedInto("smlal", "4s", t, w, sums)
		}
		p.mixedInto("smlal2", "4s", t, w, sums)
	}
	return t
}

func (p *products) q4k() superOf {
	mask := p.same(15)
	return superOf{half: 0, low: 64, row: 128, offsets: true, unpack: func(w int) unpacked {
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
		scales := []value{p.mixed("uxtl", "4s", first), p.mixed("uxtl", "4s", second)}
		offsets := p.arrange("VZIP2", "D2", first, second)
		u := unpacked{pieces: 8, scales: scales, words: []value{offsets}}
		var raw []value
		u.piece = func(i int, scales []value, w, high int) ([]value, int, value, int) {
			place := [8]int{0, 2, 1, 3, 4, 6, 5, 7}[i]
			var v []value
			if i%2 == 0 {
				first, second := p.loadPair(at(w, 16+16*i))
				raw = []value{first, second}
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
	return superOf{half: 80, low: 32, row: 32, offsets: true, unpack: func(w int) unpacked {
		b := p.load(at(w, 0))
		low, high := p.logic("and", b, mask), p.shiftBytes("ushr", b, 4)
		offsets := []value{p.mixed("uxtl", "8h", high), p.mixed("uxtl2", "8h", high)}
		scales := p.longs([2]value{p.mixed("uxtl", "8h", low), p.mixed("uxtl2", "8h", low)})
		u := unpacked{pieces: 16, scales: scales[:], words: offsets}
		var raw [2]value
		u.piece = func(i int, scales []value, w, high int) ([]value, int, value, int) {
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
	return superOf{half: 208, odd: 2, low: 64, high: 32, row: 128, unpack: func(w int) unpacked {
		b := p.load(at(w, 192))
		words := [2]value{p.mixed("sxtl", "8h", b), p.mixed("sxtl2", "8h", b)}
		scales := p.longs(words)
		u := unpacked{pieces: 16, scales: scales[:], words: words[:]}
		var low [4]value
		var upper [2]value
		u.piece = func(i int, scales []value, w, high int) ([]value, int, value, int) {
			part, k := i/8, i%8
			var v, top value
			if k < 2 {
				upper[k] = p.load(at(high, 128+32*part+16*k))
			}
			if k < 4 {
				low[k] = p.load(at(w, 64*part+16*k))
				v = p.logic("and", low[k], mask)
			} else {
				v = p.shiftBytes("ushr", low[k-4], 4)
			}
			switch h := upper[k%2]; k / 2 {
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
	return superOf{half: 0, low: 32, row: 128, unpack: func(w int) unpacked {
		u := unpacked{pieces: 8}
		u.piece = func(i int, scales []value, w, high int) ([]value, int, value, int) {
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
