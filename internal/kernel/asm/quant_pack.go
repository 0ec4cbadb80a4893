package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of type packArgs in package blocks, which checks them.
const (
	packN     = 0
	packPanel = 8
	packTmp   = 16
	packRows  = 24
)

// packing is a function writing 16 rows of weights to one half of a panel.
type packing struct {
	quantSet
	t, n, out, at reg.Register // at is the unit's offset in a row
}

func (q quantSet) packs() {
	q.packUnit("Q4K", 144, 8192+14*panelLine, packing.q4k)
	q.packUnit("Q2K", 84, 8192+10*panelLine, packing.q2k)
	q.packUnit("Q6K", 210, 8192+25*panelLine, packing.q6k)
	q.packUnit("Q8", groupLen*34, panelGroup+4*panelLine, func(p packing) { p.q8(false) })
	q.packUnit("MX", groupLen*17, panelGroup+4*panelLine, func(p packing) { p.mx(12) })
	q.packUnit("Group", groupRow, panelGroup+8*panelLine, func(p packing) { p.group(false) })
}

// packUnit writes a function with a loop over units: of `size` bytes in a row, and of `lines` bytes
// in a panel.
func (q quantSet) packUnit(kind string, size, lines int, unit func(p packing)) {
	name := "avx512Pack" + kind
	TEXT(name, NOSPLIT, "func(t *byte)")
	Pragma("noescape")
	Doc(name + " writes 16 rows of weights to one half of a panel.")
	p := packing{quantSet: q, t: Load(Param("t"), GP64()), at: GP64()}
	p.n, p.out = field(p.t, packN), field(p.t, packPanel)
	q.table.align()
	XORQ(p.at, p.at)
	Label("unit")
	unit(p)
	ADDQ(I32(size), p.at)
	ADDQ(I32(lines), p.out)
	DECQ(p.n)
	JNZ(LabelRef("unit"))
	VZEROUPPER()
	RET()
	q.table.base = nil
}

// row returns the address of byte disp of the unit in row i.
func (p packing) row(i, disp int) Mem {
	return Mem{Base: field(p.t, packRows+8*i), Index: p.at, Scale: 1, Disp: disp}
}

// four returns the four 32-bit words from disp on of every row. Loading and shuffling takes a
// fraction of the time of gather instructions.
func (p packing) four(disp int) (out [4]reg.VecVirtual) {
	var r [4]reg.VecVirtual
	for i := range r { // rows i, 4+i, 8+i and 12+i
		r[i] = ZMM()
		VMOVDQU32(p.row(i, disp), r[i].AsX())
		for q := 1; q < 4; q++ {
			VINSERTI32X4(Imm(uint64(q)), p.row(4*q+i, disp), r[i], r[i])
		}
	}
	for i := 0; i < 4; i += 2 {
		high := ZMM()
		VPUNPCKHDQ(r[i+1], r[i], high)
		VPUNPCKLDQ(r[i+1], r[i], r[i])
		r[i+1] = high
	}
	for j := range 2 {
		out[2*j], out[2*j+1] = ZMM(), ZMM()
		VPUNPCKLQDQ(r[2+j], r[j], out[2*j])
		VPUNPCKHQDQ(r[2+j], r[j], out[2*j+1])
	}
	return out
}

// words returns the 32-bit words at each of the given offsets of every row.
func (p packing) words(disps ...int) []reg.VecVirtual {
	out, parts := make([]reg.VecVirtual, len(disps)), make([]reg.VecVirtual, len(disps))
	for q := range 4 {
		for i := range 4 {
			row := p.row(4*q+i, 0)
			for k, disp := range disps {
				row.Disp = disp
				if i == 0 {
					parts[k] = XMM()
					VMOVD(row, parts[k])
					continue
				}
				VPINSRD(Imm(uint64(i)), row, parts[k], parts[k])
			}
		}
		for k, part := range parts {
			if q == 0 {
				out[k] = part.AsZ().(reg.VecVirtual)
				continue
			}
			VINSERTI32X4(Imm(uint64(q)), part, out[k], out[k])
		}
	}
	return out
}

// turned reads 64 bytes of each row with load, and calls do with the bytes 4i to 4i+3 of every row,
// for each i.
func (p packing) turned(load func(row Mem, v reg.VecVirtual), do func(i int, v reg.VecVirtual)) {
	r := make([]reg.VecVirtual, 16)
	for i := range r {
		r[i] = ZMM()
		load(p.row(i, 0), r[i])
	}
	for i := 0; i < 16; i += 2 {
		hi := ZMM()
		VPUNPCKHDQ(r[i+1], r[i], hi)
		VPUNPCKLDQ(r[i+1], r[i], r[i])
		r[i+1] = hi
	}
	for i := 0; i < 16; i += 4 {
		a, b, c, d := r[i], r[i+1], r[i+2], r[i+3]
		r[i], r[i+1], r[i+2], r[i+3] = ZMM(), ZMM(), ZMM(), ZMM()
		VPUNPCKLQDQ(c, a, r[i])
		VPUNPCKHQDQ(c, a, r[i+1])
		VPUNPCKLQDQ(d, b, r[i+2])
		VPUNPCKHQDQ(d, b, r[i+3]) // quarter q of r[i+j] is column 4q+j of rows i to i+3
	}
	for c := range 4 {
		for odd, half := range []uint64{0x88, 0xdd} {
			low, high := ZMM(), ZMM()
			VSHUFI32X4(Imm(half), r[4+c], r[c], low)
			VSHUFI32X4(Imm(half), r[12+c], r[8+c], high)
			for q, quarters := range []uint64{0x88, 0xdd} {
				v := ZMM()
				VSHUFI32X4(Imm(quarters), high, low, v)
				do(4*(odd+2*q)+c, v)
			}
		}
	}
}

// bytes64At returns a load function for turned.
func bytes64At(disp int) func(row Mem, v reg.VecVirtual) {
	return func(row Mem, v reg.VecVirtual) {
		row.Disp = disp
		VMOVDQU64(row, v)
	}
}

// store writes half of a line of the panel.
func (p packing) store(v reg.VecVirtual, line int) {
	VMOVDQU64(v, Mem{Base: p.out, Disp: panelLine * line})
}

// right returns v shifted right by n bits, or v if n is 0.
func right(v reg.VecVirtual, n int) reg.VecVirtual {
	if n == 0 {
		return v
	}
	out := ZMM()
	VPSRLD(Imm(uint64(n)), v, out)
	return out
}

// bits returns v shifted right by n bits and masked.
func (p packing) bits(v reg.VecVirtual, n int, mask Mem) reg.VecVirtual {
	out := ZMM()
	VPANDD(mask, right(v, n), out)
	return out
}

// long returns a vector with x in each of 16 lanes.
func (p packing) long(x int) Mem { return p.table.longs(func(int) int { return x }) }

// f16 writes the f16 in the upper or the lower half of v as f32.
func (p packing) f16(v reg.VecVirtual, shift, line int) {
	y, z := YMM(), ZMM()
	VPMOVDW(right(v, shift), y)
	VCVTPH2PS(y, z)
	p.store(z, line)
}

// places returns the offsets of a unit's parts of 32 in a rounded row, see quantOrder of package
// blocks.
func places(order [8]int) (place [8]int) {
	for at, part := range order {
		place[part] = at
	}
	return place
}

// joined returns low | high<<16.
func joined(low, high reg.VecVirtual) reg.VecVirtual {
	VPSLLD(Imm(16), high, high)
	VPORD(high, low, low)
	return low
}

func (p packing) q4k() {
	place := places([8]int{0, 2, 1, 3, 4, 6, 5, 7})
	d, scales, offsets := p.q4kNumbers()
	p.f16(d, 0, 76)
	p.f16(d, 16, 77)
	for j := range 8 {
		s := scales(j)
		VCVTDQ2PS(s, s)
		p.store(s, 64+place[j])
	}
	for j := 0; j < 8; j += 2 {
		p.store(joined(offsets(j), offsets(j+1)), 72+j/2)
	}
	for half := range 2 {
		p.turned(bytes64At(16+64*half), func(i int, v reg.VecVirtual) {
			part := 4*half + i/8*2 // of 32 weights; the next one is in the upper bits
			p.store(p.bits(v, 0, p.table.same(15)), 8*place[part]+i%8)
			p.store(p.bits(v, 4, p.table.same(15)), 8*place[part+1]+i%8)
		})
	}
}

// q4kNumbers returns d and m, and functions computing the scales and the offsets, 8 of each, of
// every row.
func (p packing) q4kNumbers() (d reg.VecVirtual, scales, offsets func(j int) reg.VecVirtual) {
	head := p.four(0)
	a, b, c := head[1], head[2], head[3]
	// six returns number j of 6 bits: see quant.Q4Scale.
	six := func(v reg.VecVirtual, j, shift int) reg.VecVirtual {
		if j < 4 {
			return p.bits(v, 8*j, p.long(63))
		}
		x := p.bits(c, 8*(j-4)+shift, p.long(15))
		VPTERNLOGD(Imm(0xf8), p.long(0x30), right(v, 8*(j-4)+2), x) // x | v>>… & 0x30
		return x
	}
	scales = func(j int) reg.VecVirtual { return six(a, j, 0) }
	offsets = func(j int) reg.VecVirtual { return six(b, j, 4) }
	return head[0], scales, offsets
}

func (p packing) q2k() {
	place := places([8]int{0, 4, 1, 5, 2, 6, 3, 7})
	tmp := field(p.t, packTmp)
	for g, v := range p.four(0) { // 4 scales and 4 offsets
		for j := range 4 {
			s, twice := p.bits(v, 8*j, p.long(15)), ZMM()
			VPSLLD(Imm(16), s, twice)
			VPORD(twice, s, s)
			VMOVDQU64(s, Mem{Base: tmp, Disp: 64 * (4*g + j)})
		}
		for j := 0; j < 4; j += 2 {
			p.store(joined(p.bits(v, 8*j+4, p.long(15)), p.bits(v, 8*j+12, p.long(15))), 64+2*g+j/2)
		}
	}
	d := p.words(80)[0]
	p.f16(d, 0, 72)
	p.f16(d, 16, 73)
	p.turned(bytes64At(16), func(i int, v reg.VecVirtual) {
		for k := range 4 { // 32 weights from 128·(i/8) + 32k on, times their scale: at most 45
			w := p.bits(v, 2*k, p.table.same(3))
			VPMULLW(Mem{Base: tmp, Disp: 64 * (i/8*8 + 2*k + i%8/4)}, w, w)
			p.store(w, 8*place[i/8*4+k]+i%8)
		}
	})
}

func (p packing) q6k() {
	tmp := field(p.t, packTmp)
	for g, v := range p.four(192) {
		var words [4]reg.VecVirtual
		for j := range words {
			s := ZMM()
			VPSLLD(Imm(uint64(24-8*j)), v, s)
			VPSRAD(Imm(24), s, s)
			p.store(s, 64+4*g+j)
			words[j] = s
		}
		for j := 0; j < 4; j += 2 {
			VPANDD(p.long(0xffff), words[j], words[j])
			p.store(joined(words[j], words[j+1]), 80+2*g+j/2)
		}
	}
	p.f16(p.words(206)[0], 16, 88)
	p.turned(bytes64At(128), func(i int, v reg.VecVirtual) { VMOVDQU64(v, Mem{Base: tmp, Disp: 64 * i}) })
	for half := range 2 {
		p.turned(bytes64At(64*half), func(i int, v reg.VecVirtual) {
			high := ZMM()
			VMOVDQU64(Mem{Base: tmp, Disp: 64 * (8*half + i%8)}, high)
			for k := range 2 { // the lower and the upper bits
				p.store(p.q6kWeights(v, high, i, k), 32*half+16*k+i)
			}
		})
	}
}

// q6kWeights returns line 16k+i of a half, given its lower bits in v and its upper bits in high.
func (p packing) q6kWeights(v, high reg.VecVirtual, i, k int) reg.VecVirtual {
	w, from := p.bits(v, 4*k, p.table.same(15)), high
	switch shift := i/8*2 + 4*k - 4; { // distance of the two bits above their destination
	case shift < 0:
		from = ZMM()
		VPSLLD(Imm(uint64(-shift)), high, from)
	default:
		from = right(high, shift)
	}
	VPTERNLOGD(Imm(0xf8), p.table.same(0x30), from, w)
	return w
}

// q8 writes weights plus 128, or unchanged if signed is set; it also writes group.
func (p packing) q8(signed bool) {
	for b, v := range p.words(0, 34, 68, 102) {
		p.f16(v, 0, 32+b)
	}
	for two := range 2 { // two blocks
		p.turned(func(row Mem, v reg.VecVirtual) {
			row.Disp = 68*two + 2
			VBROADCASTI64X4(row, v)
			row.Disp += 34
			VINSERTI64X4(Imm(1), row, v, v)
		}, func(i int, v reg.VecVirtual) {
			if !signed {
				VPXORD(p.table.same(0x80), v, v)
			}
			p.store(v, 16*two+i)
		})
	}
}

// mx writes weights plus `more`.
func (p packing) mx(more int) {
	scales := GP64()
	LEAQ(NewDataAddr(Symbol{Name: "quantScales", Static: true}, 0), scales)
	all := K()
	for b, v := range p.words(0, 17, 34, 51) {
		e, d := p.bits(v, 0, p.long(255)), ZMM()
		KXNORW(all, all, all)
		VPGATHERDD(Mem{Base: scales, Index: e, Scale: 4}, all, d)
		p.store(d, 32+b)
	}
	values := ZMM()
	VMOVDQU64(p.table.vector(func(i int) uint8 { return value(i, more) }), values)
	p.turned(func(row Mem, v reg.VecVirtual) {
		row.Disp = 1
		VBROADCASTI32X4(row, v)
		for b := 1; b < groupLen; b++ {
			row.Disp += 17
			VINSERTI32X4(Imm(uint64(b)), row, v, v)
		}
	}, func(i int, v reg.VecVirtual) {
		for k := range 2 { // the lower and the upper bits
			w := p.bits(v, 4*k, p.table.same(15))
			VPSHUFB(w, values, w)
			p.store(w, i/4*8+4*k+i%4)
		}
	})
}

func (p packing) group(signed bool) {
	for b, v := range p.four(groupScale) {
		p.store(v, 32+b)
	}
	for b, v := range p.four(groupSums) {
		p.store(v, 36+b)
	}
	for half := range 2 {
		p.turned(bytes64At(64*half), func(i int, v reg.VecVirtual) {
			if !signed {
				VPXORD(p.table.same(0x80), v, v)
			}
			p.store(v, 16*half+i)
		})
	}
}
