package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tilePacks writes the functions writing panels for tiles. A panel of q2_k is the same as for
// vectors.
func (q quantSet) tilePacks() {
	q.packUnit("TileQ4K", 144, 2*panelSuper+6*panelLine, packing.q4kTile)
	q.packUnit("TileQ6K", 210, 2*panelSuper+panelLine, packing.q6kTile)
	q.packUnit("TileQ8", groupLen*34, panelGroup+groupLen*panelLine, func(p packing) { p.q8(true) })
	q.packUnit("TileMX", groupLen*17, panelGroup+groupLen*panelLine, func(p packing) { p.mx(0) })
	q.packUnit("TileGroup", groupRow, panelGroup+2*groupLen*panelLine, func(p packing) { p.group(true) })
}

func (p packing) q4kTile() {
	place := places([8]int{0, 2, 1, 3, 4, 6, 5, 7})
	tmp := field(p.t, packTmp)
	d, scales, offsets := p.q4kNumbers()
	p.f16(d, 0, 132)
	p.f16(d, 16, 133)
	for j := range 8 {
		s := scales(j)
		for part, v := range [2]reg.VecVirtual{p.bits(s, 0, p.long(7)), right(s, 3)} {
			VMOVDQU64(joined(v, copied(v)), Mem{Base: tmp, Disp: 64 * (2*j + part)})
		}
	}
	for j := 0; j < 8; j += 2 {
		p.store(joined(offsets(j), offsets(j+1)), 128+j/2)
	}
	for half := range 2 {
		p.turned(bytes64At(16+64*half), func(i int, v reg.VecVirtual) {
			for k := range 2 {
				j := 4*half + i/8*2 + k // of 32 weights
				w := p.bits(v, 4*k, p.table.same(15))
				for part := range 2 { // at most 15·7
					product := ZMM()
					VPMULLW(Mem{Base: tmp, Disp: 64 * (2*j + part)}, w, product)
					p.store(product, 64*part+8*place[j]+i%8)
				}
			}
		})
	}
}

func copied(v reg.VecVirtual) reg.VecVirtual {
	c := ZMM()
	VMOVDQA64(v, c)
	return c
}

func (p packing) q6kTile() {
	const even, odd, less, high = 0, 1024, 2048, 3072 // scales as bytes of words, 32 of each, and upper bits
	tmp, centre := field(p.t, packTmp), ZMM()
	VMOVDQU64(p.table.same(32), centre)
	for g, v := range p.four(192) {
		for j := range 4 {
			s := p.bits(v, 8*j, p.long(255))
			s = joined(s, copied(s))
			at := Mem{Base: tmp, Disp: 64 * (4*g + j)}
			VMOVDQU64(s, at)
			times := ZMM()
			VPMADDUBSW(s, centre, times)
			VMOVDQU64(times, at.Offset(less))
			VPSLLW(Imm(8), s, s)
			VMOVDQU64(s, at.Offset(odd))
		}
	}
	p.f16(p.words(206)[0], 16, 128)
	p.turned(bytes64At(128), func(i int, v reg.VecVirtual) { VMOVDQU64(v, Mem{Base: tmp, Disp: high + 64*i}) })
	lowBytes, highBytes := p.table.words(func(int) int { return 0xff }), p.table.words(func(int) int { return 0xff00 })
	for half := range 2 {
		p.turned(bytes64At(64*half), func(i int, v reg.VecVirtual) {
			from := ZMM()
			VMOVDQU64(Mem{Base: tmp, Disp: high + 64*(8*half+i%8)}, from)
			for k := range 2 { // the lower and the upper bits
				w := p.q6kWeights(v, from, i, k)
				first, second := ZMM(), ZMM() // of two bytes, times the scale
				scale := Mem{Base: tmp, Disp: 64 * (8*half + 4*k + i/4)}
				VPMADDUBSW(scale.Offset(even), w, first)
				VPMADDUBSW(scale.Offset(odd), w, second)
				VPSUBW(scale.Offset(less), first, first)
				VPSUBW(scale.Offset(less), second, second)
				VPSLLW(Imm(8), second, w)
				VPTERNLOGD(Imm(0xf8), lowBytes, first, w) // w | first & …
				p.store(w, 32*half+16*k+i)
				VPSRLW(Imm(8), first, first)
				VPTERNLOGD(Imm(0xf8), highBytes, second, first)
				p.store(first, 64+32*half+16*k+i)
			}
		})
	}
}
