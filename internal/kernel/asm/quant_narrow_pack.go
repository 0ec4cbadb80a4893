package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// narrowPack is a function of AVX2 writing 8 rows of weights to a quarter of a panel.
type narrowPack struct {
	quantSet
	t, n, out, at reg.Register // at is the unit's offset in a row
}

func (q quantSet) narrowPacks() {
	q.packEight("Q4K", 144, panelSuper+14*panelLine, narrowPack.q4k)
	q.packEight("Q2K", 84, panelSuper+10*panelLine, narrowPack.q2k)
	q.packEight("Q6K", 210, panelSuper+25*panelLine, narrowPack.q6k)
	q.packEight("Q8", groupLen*34, panelGroup+4*panelLine, narrowPack.q8)
	q.packEight("MX", groupLen*17, panelGroup+4*panelLine, narrowPack.mx)
	q.packEight("Group", groupRow, panelGroup+8*panelLine, narrowPack.group)
}

// packEight writes a function with a loop over units: of `size` bytes in a row, and of `lines` bytes in a panel.
func (q quantSet) packEight(kind string, size, lines int, unit func(p narrowPack)) {
	name := "avx2Pack" + kind
	TEXT(name, NOSPLIT, "func(t *byte)")
	Pragma("noescape")
	Doc(name + " writes 8 rows of weights to a quarter of a panel.")
	p := narrowPack{quantSet: q, t: Load(Param("t"), GP64()), at: GP64()}
	p.n, p.out = field(p.t, packN), field(p.t, packPanel)
	XORQ(p.at, p.at)
	Label("unit")
	unit(p)
	ADDQ(I32(size), p.at)
	ADDQ(I32(lines), p.out)
	DECQ(p.n)
	JNZ(LabelRef("unit"))
	VZEROUPPER()
	RET()
}

// row returns the address of byte disp of the unit in row i.
func (p narrowPack) row(i, disp int) Mem {
	return Mem{Base: field(p.t, packRows+8*i), Index: p.at, Scale: 1, Disp: disp}
}

// store writes a quarter of a line of the panel.
func (p narrowPack) store(v reg.VecVirtual, line int) {
	VMOVDQU(v, Mem{Base: p.out, Disp: panelLine * line})
}

// turned transposes 32 bytes of each row: out[i] has the bytes 4i to 4i+3 of every row. load reads the bytes of row
// i.
func (p narrowPack) turned(load func(i int, v reg.VecVirtual)) (out [8]reg.VecVirtual) {
	var r [8]reg.VecVirtual
	for i := range r {
		r[i] = YMM()
		load(i, r[i])
	}
	for i := 0; i < 8; i += 2 {
		high := YMM()
		VPUNPCKHDQ(r[i+1], r[i], high)
		VPUNPCKLDQ(r[i+1], r[i], r[i])
		r[i+1] = high
	}
	for i := 0; i < 8; i += 4 { // then 128 bits of r[i+j] are column j, or 4+j, of rows i to i+3
		for j := range 2 {
			high := YMM()
			VPUNPCKHQDQ(r[i+2+j], r[i+j], high)
			VPUNPCKLQDQ(r[i+2+j], r[i+j], r[i+j])
			r[i+2+j] = high
		}
		r[i+1], r[i+2] = r[i+2], r[i+1]
	}
	for j := range 4 {
		out[j], out[4+j] = YMM(), YMM()
		VPERM2I128(Imm(0x20), r[4+j], r[j], out[j])
		VPERM2I128(Imm(0x31), r[4+j], r[j], out[4+j])
	}
	return out
}

// bytesAt is turned for the bytes from disp on.
func (p narrowPack) bytesAt(disp int) [8]reg.VecVirtual {
	return p.turned(func(i int, v reg.VecVirtual) { VMOVDQU(p.row(i, disp), v) })
}

// four returns the four 32-bit words from disp on of every row.
func (p narrowPack) four(disp int) [4]reg.VecVirtual {
	return fourWords(func(i int) Mem { return p.row(i, disp) })
}

// fourWords returns the four 32-bit words of 8 rows of 16 bytes, in vectors of 256 bits: lane i belongs to row i.
func fourWords(row func(i int) Mem) (out [4]reg.VecVirtual) {
	var r [4]reg.VecVirtual
	for i := range r { // rows i and 4+i
		r[i] = YMM()
		VBROADCASTI128(row(i), r[i])
		VINSERTI128(Imm(1), row(4+i), r[i], r[i])
	}
	for i := 0; i < 4; i += 2 {
		high := YMM()
		VPUNPCKHDQ(r[i+1], r[i], high)
		VPUNPCKLDQ(r[i+1], r[i], r[i])
		r[i+1] = high
	}
	for j := range 2 {
		out[2*j], out[2*j+1] = YMM(), YMM()
		VPUNPCKLQDQ(r[2+j], r[j], out[2*j])
		VPUNPCKHQDQ(r[2+j], r[j], out[2*j+1])
	}
	return out
}

// masked returns v shifted right by n bits, or left if n is below 0, and masked.
func masked(v reg.VecVirtual, n int, mask Mem) reg.VecVirtual {
	out := YMM()
	switch {
	case n > 0:
		VPSRLD(Imm(uint64(n)), v, out)
	case n < 0:
		VPSLLD(Imm(uint64(-n)), v, out)
	}
	if n != 0 {
		v = out
	}
	VPAND(mask, v, out)
	return out
}

// long returns a vector with x in every 32-bit lane.
func (p narrowPack) long(x int) Mem { return p.table.longs(func(int) int { return x }) }

// joined returns low | high<<16.
func (p narrowPack) joined(low, high reg.VecVirtual) reg.VecVirtual {
	out := YMM()
	VPSLLD(Imm(16), high, out)
	VPOR(low, out, out)
	return out
}

// halves writes the f16 at disp of every row as f32.
func (p narrowPack) halves(disp, line int) {
	x, y := XMM(), YMM()
	VPXOR(x, x, x)
	for i := range 8 {
		VPINSRW(Imm(uint64(i)), p.row(i, disp), x, x)
	}
	VCVTPH2PS(x, y)
	p.store(y, line)
}

func (p narrowPack) q4k() {
	place := places([8]int{0, 2, 1, 3, 4, 6, 5, 7})
	head := p.four(0)
	a, b, c := head[1], head[2], head[3]
	// six returns number j of 6 bits: see quant.Q4Scale.
	six := func(v reg.VecVirtual, j, shift int) reg.VecVirtual {
		if j < 4 {
			return masked(v, 8*j, p.long(63))
		}
		x := masked(c, 8*(j-4)+shift, p.long(15))
		VPOR(masked(v, 8*(j-4)+2, p.long(0x30)), x, x)
		return x
	}
	for j := range 8 {
		s := six(a, j, 0)
		p.store(p.joined(s, s), 64+place[j])
	}
	for j := 0; j < 8; j += 2 {
		p.store(p.joined(six(b, j, 4), six(b, j+1, 4)), 72+j/2)
	}
	p.halves(0, 76)
	p.halves(2, 77)
	for part := 0; part < 8; part += 2 { // of 32 weights; the next one is in the upper bits
		for i, v := range p.bytesAt(16 + 16*part) {
			p.store(masked(v, 0, p.table.same(15)), 8*place[part]+i)
			p.store(masked(v, 4, p.table.same(15)), 8*place[part+1]+i)
		}
	}
}

func (p narrowPack) q2k() {
	place := places([8]int{0, 4, 1, 5, 2, 6, 3, 7})
	tmp := field(p.t, packTmp)
	for g, v := range p.four(0) { // 4 scales and 4 offsets
		for j := range 4 {
			s := masked(v, 8*j, p.long(15))
			VMOVDQU(p.joined(s, s), Mem{Base: tmp, Disp: 32 * (4*g + j)})
		}
		for j := 0; j < 4; j += 2 {
			p.store(p.joined(masked(v, 8*j+4, p.long(15)), masked(v, 8*j+12, p.long(15))), 64+2*g+j/2)
		}
	}
	p.halves(80, 72)
	p.halves(82, 73)
	for half := range 2 {
		for i, v := range p.bytesAt(16 + 32*half) {
			for k := range 4 { // 32 weights from 128·half + 32k on, times their scale: at most 45
				w := masked(v, 2*k, p.table.same(3))
				VPMULLW(Mem{Base: tmp, Disp: 32 * (8*half + 2*k + i/4)}, w, w)
				p.store(w, 8*place[4*half+k]+i)
			}
		}
	}
}

func (p narrowPack) q6k() {
	tmp := field(p.t, packTmp)
	for g, v := range p.four(192) {
		var words [4]reg.VecVirtual // of 16 bits, and zeros above
		for j := range words {
			s := YMM()
			VPSLLD(Imm(uint64(24-8*j)), v, s)
			VPSRAD(Imm(24), s, s)
			VPAND(p.long(0xffff), s, s)
			p.store(p.joined(s, s), 64+4*g+j)
			words[j] = s
		}
		for j := 0; j < 4; j += 2 {
			p.store(p.joined(words[j], words[j+1]), 80+2*g+j/2)
		}
	}
	p.halves(208, 88)
	for half := range 2 {
		for i, v := range p.bytesAt(128 + 32*half) {
			VMOVDQU(v, Mem{Base: tmp, Disp: 32 * i})
		}
		for second := range 2 {
			for i, v := range p.bytesAt(64*half + 32*second) {
				high := YMM()
				VMOVDQU(Mem{Base: tmp, Disp: 32 * i}, high)
				for up := range 2 { // the lower and the upper bits
					k := second + 2*up
					w := masked(v, 4*up, p.table.same(15))
					VPOR(masked(high, 2*k-4, p.table.same(0x30)), w, w)
					p.store(w, 8*(4*half+k)+i)
				}
			}
		}
	}
}

func (p narrowPack) q8() {
	for b := range groupLen {
		p.halves(34*b, 32+b)
		for i, v := range p.bytesAt(34*b + 2) {
			p.store(v, 8*b+i)
		}
	}
}

func (p narrowPack) mx() {
	scales := GP64()
	LEAQ(NewDataAddr(Symbol{Name: "quantScales", Static: true}, 0), scales)
	for b := range groupLen {
		for i := range 8 {
			e, d := GP64(), GP32()
			MOVBQZX(p.row(i, 17*b), e)
			MOVL(Mem{Base: scales, Index: e, Scale: 4}, d)
			MOVL(d, Mem{Base: p.out, Disp: panelLine*(32+b) + 4*i})
		}
	}
	values := p.table.vector(func(i int) uint8 { return value(i, 12) })
	for b := 0; b < groupLen; b += 2 {
		columns := p.turned(func(i int, v reg.VecVirtual) {
			VBROADCASTI128(p.row(i, 17*b+1), v)
			VINSERTI128(Imm(1), p.row(i, 17*(b+1)+1), v, v)
		})
		for i, v := range columns {
			for k := range 2 { // the lower and the upper bits
				w, table := masked(v, 4*k, p.table.same(15)), YMM()
				VMOVDQU(values, table)
				VPSHUFB(w, table, w)
				p.store(w, 8*(b+i/4)+4*k+i%4)
			}
		}
	}
}

func (p narrowPack) group() {
	for b, v := range p.four(groupScale) {
		p.store(v, 32+b)
	}
	for b, v := range p.four(groupSums) {
		p.store(v, 36+b)
	}
	for b := range groupLen {
		for i, v := range p.bytesAt(32 * b) {
			p.store(v, 8*b+i)
		}
	}
}
