package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// narrowRows is the largest number of rows of x that a function of AVX2 multiplies with a panel, 16 of its rows of weights
// at a time: they have 6 sums of 16 bits and 6 of 32, and the weights of 4 lanes take the other registers.
const narrowRows = 3

// narrowPanels writes the products of panels for AVX2, which adds products of bytes in pairs, in 16 bits. Panels are the
// same as for AVX-512, except for these lines and weights:
//
//	q4_k, q6_k    scales are two equal numbers of 16 bits
//	q8_0, groups  weights are signed
//
// Sums of 16 bits are accumulated as long as they cannot overflow: `depth` products of four weights, adding two of them,
// and none exceeding 127.
func (q quantSet) narrowPanels() {
	for rows := narrowRows - 1; rows <= narrowRows; rows++ {
		q.narrowPanel("Q4K", rows, false, 8).super() // weights to 15
		q.narrowPanel("Q6K", rows, false, 2).super() // to 63
		q.narrowPanel("Q2K", rows, false, 2).super() // to 3 times a scale of 15
		q.narrowPanel("MX", rows, false, 4).group()  // to 24
		q.narrowPanel("Q8", rows, true, 1).group()   // to 128
		q.narrowPanel("Small", rows, true, 4).group()
		q.narrowPanel("Large", rows, true, 1).group()
	}
}

type narrow struct {
	quantSet
	kind    string
	signed  bool
	depth   int
	t, n, w reg.Register
	line    reg.Register // in the weights
	scale   reg.Register // in the lines following the weights
	at      reg.Register // in the rows x
	half, y reg.Register // the halves that are left, and the products
	x       []reg.Register
	sum     [][2]reg.VecPhysical // integer sums, for each row of x
}

func (q quantSet) narrowPanel(kind string, rows int, signed bool, depth int) narrow {
	name := fmt.Sprintf("avx2Panel%s%d", kind, rows)
	TEXT(name, NOSPLIT, "func(t *byte)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s adds the products of a panel of weights with %d of the rows x.", name, rows))
	p := narrow{quantSet: q, kind: kind, signed: signed, depth: depth, t: Load(Param("t"), GP64()), line: GP64(), scale: GP64(), at: GP64(), half: GP64(), y: GP64()}
	p.n, p.w = field(p.t, panelN), field(p.t, panelW)
	for r := range rows {
		p.x = append(p.x, field(p.t, panelX+8*r))
	}
	all := []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5}
	for r := range rows {
		p.sum = append(p.sum, [2]reg.VecPhysical(all[2*r:]))
	}
	panel{t: p.t}.fetch()
	return p
}

func (p narrow) each(do func(r, v int)) {
	for r := range p.x {
		for v := range 2 {
			do(r, v)
		}
	}
}

// halves writes the loop over the halves of the rows of weights, 16 at a time. w and y advance by half a line each time.
func (p narrow) halves(lines int, body func()) {
	MOVQ(Mem{Base: p.t, Disp: panelY}, p.y)
	MOVQ(I32(2), p.half)
	Label("half")
	MOVQ(p.w, p.line)
	LEAQ(Mem{Base: p.w, Disp: lines * panelLine}, p.scale)
	XORQ(p.at, p.at)
	body()
	ADDQ(Imm(panelLine/2), p.w)
	ADDQ(Imm(panelLine/2), p.y)
	DECQ(p.half)
	JNZ(LabelRef("half"))
}

// part adds the products of 32 weights of each row, times scale(i, v) of line i.
func (p narrow) part(scale func(i, v int) Mem, first bool) {
	sums := make([][2]reg.VecVirtual, len(p.x)) // of 16 bits
	add := func(i, r, v int, t reg.VecVirtual) {
		if i%p.depth == 0 {
			sums[r][v] = t
		} else {
			VPADDW(t, sums[r][v], sums[r][v])
		}
	}
	for i := range 8 {
		x := func(r int) reg.VecVirtual {
			b := YMM()
			VPBROADCASTD(Mem{Base: p.x[r], Index: p.at, Scale: 1, Disp: 4 * i}, b)
			return b
		}
		var w [2]reg.VecVirtual
		for v := range w {
			w[v] = YMM()
			VMOVDQU(Mem{Base: p.line, Disp: panelLine*i + 32*v}, w[v])
			if !p.signed {
				continue
			}
			size := YMM()
			VPABSB(w[v], size)
			for r := range p.x {
				b := x(r)
				VPSIGNB(w[v], b, b)
				VPMADDUBSW(b, size, b)
				add(i, r, v, b)
				if p.depth == 1 {
					p.widen(i, r, v, b, scale(i, v), first)
				}
			}
		}
		if !p.signed {
			for r := range p.x {
				b, t := x(r), YMM()
				VPMADDUBSW(b, w[0], t)
				add(i, r, 0, t)
				VPMADDUBSW(b, w[1], b)
				add(i, r, 1, b)
			}
		}
		if i%p.depth == p.depth-1 && p.depth > 1 {
			p.each(func(r, v int) { p.widen(i, r, v, sums[r][v], scale(i, v), first) })
		}
	}
}

// widen adds 16-bit sums, times a scale, to the 32-bit sums.
func (p narrow) widen(i, r, v int, t reg.VecVirtual, scale Mem, first bool) {
	if first && i < p.depth {
		VPMADDWD(scale, t, p.sum[r][v])
		return
	}
	VPMADDWD(scale, t, t)
	VPADDD(t, p.sum[r][v], p.sum[r][v])
}

func (p narrow) ones(int, int) Mem { return p.table.words(func(int) int { return 1 }) }

// super writes the loop over units of 256 weights.
func (p narrow) super() {
	pairs, disp := map[string]int{"Q4K": 4, "Q6K": 8, "Q2K": 8}[p.kind], panelSuper+map[string]int{"Q4K": 8, "Q6K": 16}[p.kind]*panelLine
	scales := disp + pairs*panelLine // of d, and then of m
	p.halves(panelSuper/panelLine, func() {
		p.each(func(r, v int) { VPXOR(p.sum[r][v], p.sum[r][v], p.sum[r][v]) })
		Label("part")
		at := func(i, v int) Mem { return Mem{Base: p.scale, Disp: panelLine*i + 32*v} }
		switch p.kind {
		case "Q4K":
			p.part(func(_, v int) Mem { return at(0, v) }, false)
			ADDQ(I32(panelLine), p.scale)
		case "Q6K":
			p.part(func(i, v int) Mem { return at(i/4, v) }, false)
			ADDQ(I32(2*panelLine), p.scale)
		default:
			p.part(p.ones, false)
		}
		ADDQ(I32(8*panelLine), p.line)
		ADDQ(Imm(32), p.at)
		CMPQ(p.at, U32(256))
		JNE(LabelRef("part"))

		panel{t: p.t, x: p.x}.eachRow(p.y, func(r, v int, at Mem) { VMOVDQU(p.sum[r][v], at) }, func(x, sums, y reg.Register) {
			var off [2]reg.VecVirtual // the contributions of the offsets
			for i := range pairs {
				b, t := YMM(), YMM()
				VPBROADCASTD(Mem{Base: x, Disp: superSums + 4*i}, b)
				for v := range off {
					from := Mem{Base: p.w, Disp: disp + panelLine*i + 32*v}
					if i == 0 {
						off[v] = YMM()
						VPMADDWD(from, b, off[v])
						continue
					}
					VPMADDWD(from, b, t)
					VPADDD(t, off[v], off[v])
				}
			}
			dx := YMM()
			VBROADCASTSS(Mem{Base: x, Disp: superScale}, dx)
			for v, o := range off {
				s, d, from := YMM(), YMM(), Mem{Base: sums, Disp: 64 * v}
				if p.kind == "Q6K" {
					VPSLLD(Imm(5), o, o)
					VMOVDQU(from, s)
					VPSUBD(o, s, s)
					VCVTDQ2PS(s, s)
				} else {
					VCVTDQ2PS(from, s)
				}
				VMULPS(Mem{Base: p.w, Disp: scales + 32*v}, dx, d)
				VMULPS(s, d, d)
				if p.kind != "Q6K" {
					m := YMM()
					VCVTDQ2PS(o, o)
					VMULPS(Mem{Base: p.w, Disp: scales + panelLine + 32*v}, dx, m)
					VMULPS(o, m, m)
					VSUBPS(m, d, d)
				}
				addTo(Mem{Base: y, Disp: 32 * v}, d)
			}
		})
	})
	lines := scales/panelLine + 2
	if p.kind == "Q6K" {
		lines--
	}
	p.end(lines, superRow)
}

// group writes the loop over groups of 4 blocks of 32 weights.
func (p narrow) group() {
	offset := p.kind == "Small" || p.kind == "Large"
	block := GP64() // offset of a block's numbers in the rows
	p.halves(panelGroup/panelLine, func() {
		XORQ(block, block)
		Label("part")
		p.part(p.ones, true)
		for r := range p.x {
			sums, dx := YMM(), YMM()
			if offset || !p.signed {
				VPBROADCASTD(Mem{Base: p.x[r], Index: block, Scale: 1, Disp: groupSums}, sums)
			}
			VBROADCASTSS(Mem{Base: p.x[r], Index: block, Scale: 1, Disp: groupScale}, dx)
			if offset {
				VPSRAD(Imm(7), sums, sums)
				VCVTDQ2PS(sums, sums)
			}
			for v := range 2 {
				s, d := p.sum[r][v], YMM()
				if !p.signed {
					VPSUBD(sums, s, s)
				}
				VCVTDQ2PS(s, s)
				VMULPS(Mem{Base: p.scale, Disp: 32 * v}, dx, d)
				VMULPS(s, d, d)
				if offset {
					m := YMM()
					VMULPS(Mem{Base: p.scale, Disp: groupLen*panelLine + 32*v}, dx, m)
					VMULPS(sums, m, m)
					VADDPS(m, d, d)
				}
				addTo(Mem{Base: p.y, Disp: panelLine*r + 32*v}, d)
			}
		}
		ADDQ(I32(panelLine), p.scale)
		ADDQ(I32(8*panelLine), p.line)
		ADDQ(Imm(4), block)
		ADDQ(Imm(32), p.at)
		CMPQ(p.at, I32(128))
		JNE(LabelRef("part"))
	})
	lines := panelGroup/panelLine + groupLen
	if offset {
		lines += groupLen
	}
	p.end(lines, groupRow)
}

// addTo adds d to the products in memory.
func addTo(to Mem, d reg.VecVirtual) {
	VADDPS(to, d, d)
	VMOVUPS(d, to)
}

// end ends the loop over units of the given number of lines in the panel and of bytes in the rows. halves has advanced w
// by a line.
func (p narrow) end(lines, row int) {
	ADDQ(I32((lines-1)*panelLine), p.w)
	for _, x := range p.x {
		ADDQ(I32(row), x)
	}
	DECQ(p.n)
	JNZ(LabelRef("unit"))
	VZEROUPPER()
	RET()
}
