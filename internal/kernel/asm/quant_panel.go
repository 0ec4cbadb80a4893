package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of type panelArgs in package blocks, which checks them.
const (
	panelN     = 0
	panelW     = 8
	panelX     = 16
	panelY     = 64
	panelFetch = 72
	panelLines = 80
	panelHalf  = 88
	panelAt    = 96
)

// A panel has 32 rows of weights, unit after unit. In a unit, a line of 128 bytes has four
// successive weights of each row, as unsigned bytes; these lines are followed by lines with a
// number of 32 bits, or two of 16, of each row:
//
//	q4_k          8 scales (f32), 4 pairs of offsets, d, m
//	q2_k          8 pairs of offsets, d, m
//	q6_k          16 scales (int32), 8 pairs of them, d
//	q8_0, mxfp4   4 scales (f32)
//	groups        4 scales (f32), 4 offsets (f32)
const (
	panelLine  = 128
	panelRows  = 6 // the largest number of rows of x that a function multiplies with a panel
	panelSuper = 64 * panelLine
	panelGroup = 32 * panelLine
)

// panels writes the products of panels with 3 to 6 rows of x. Six rows have 12 sums, enough to keep
// two multipliers with a latency of 5 cycles busy.
func (q quantSet) panels() {
	for rows := panelRows / 2; rows <= panelRows; rows++ {
		for _, kind := range []string{"Q4K", "Q6K", "Q2K"} {
			q.beginPanel(kind, rows).super(kind)
		}
		q.beginPanel("Block", rows).group(false)
		q.beginPanel("Offset", rows).group(true)
	}
}

type panel struct {
	quantSet
	t, n, w reg.Register
	x       []reg.Register
	sum     [][2]reg.VecPhysical // integer sums, for each row of x
}

// sums returns two registers for each of some rows, starting with register `from`. avo treats a
// vector as live before it is cleared, so its own allocation would need too many.
func sums(rows, from int) (pairs [][2]reg.VecPhysical) {
	all := []reg.VecPhysical{
		reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11,
		reg.Z12, reg.Z13, reg.Z14, reg.Z15, reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23,
	}
	for r := range rows {
		pairs = append(pairs, [2]reg.VecPhysical(all[from+2*r:]))
	}
	return pairs
}

func (q quantSet) beginPanel(kind string, rows int) panel {
	name := fmt.Sprintf("avx512Panel%s%d", kind, rows)
	TEXT(name, NOSPLIT, "func(t *byte)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s adds the products of a panel of weights with %d of the rows x.", name, rows))
	p := panel{quantSet: q, t: Load(Param("t"), GP64())}
	p.n, p.w = field(p.t, panelN), field(p.t, panelW)
	for r := range rows {
		p.x = append(p.x, field(p.t, panelX+8*r))
	}
	p.sum = sums(rows, 0)
	return p
}

// fetch writes the start of the loop over units, prefetching some cache lines of the next panel.
func (p panel) fetch() {
	Label("unit")
	fetch, lines := field(p.t, panelFetch), field(p.t, panelLines)
	TESTQ(lines, lines)
	JZ(LabelRef("fetched"))
	fetchPage(fetch)
	Label("fetch")
	PREFETCHT1(Mem{Base: fetch})
	ADDQ(Imm(64), fetch)
	DECQ(lines)
	JNZ(LabelRef("fetch"))
	MOVQ(fetch, Mem{Base: p.t, Disp: panelFetch})
	Label("fetched")
}

func (p panel) each(do func(r, v int)) {
	for r := range p.x {
		for v := range 2 {
			do(r, v)
		}
	}
}

// steps adds the products of 4n weights of each row, from disp bytes on after w and after the rows
// at index at. If first is set, the first step initializes the sums.
func (p panel) steps(n, disp, from int, at reg.Register, first bool) {
	if first {
		p.each(func(r, v int) { VPXORD(p.sum[r][v], p.sum[r][v], p.sum[r][v]) })
	}
	for i := range n {
		w := [2]reg.VecVirtual{ZMM(), ZMM()}
		for v := range w {
			VMOVDQU64(Mem{Base: p.w, Disp: disp + panelLine*i + 64*v}, w[v])
		}
		for r, x := range p.x {
			b := ZMM()
			VPBROADCASTD(Mem{Base: x, Index: at, Scale: 1, Disp: from + 4*i}, b)
			for v := range w {
				VPDPBUSD(b, w[v], p.sum[r][v])
			}
		}
	}
}

// super writes the loop over units of 256 weights. The sums of 32 products of q4_k times their
// scale, and the totals of four of these, are exact in f32.
func (p panel) super(kind string) {
	scaled := sums(len(p.x), 2*panelRows) // sums times their scales; not for q2_k
	clearScaled := func() {
		p.each(func(r, v int) { VPXORD(scaled[r][v], scaled[r][v], scaled[r][v]) })
	}
	p.fetch()
	at, scale := GP64(), GP64() // offset of the part in the rows, and address of its scales
	XORQ(at, at)
	switch kind {
	case "Q4K", "Q6K":
		LEAQ(Mem{Base: p.w, Disp: panelSuper}, scale)
		clearScaled()
	case "Q2K":
		p.each(func(r, v int) { VPXORD(p.sum[r][v], p.sum[r][v], p.sum[r][v]) })
	}
	Label("part")
	switch kind {
	case "Q4K":
		p.steps(8, 0, 0, at, true)
		p.each(func(r, v int) {
			VCVTDQ2PS(p.sum[r][v], p.sum[r][v])
			VFMADD231PS(Mem{Base: scale, Disp: 64 * v}, p.sum[r][v], scaled[r][v])
		})
		ADDQ(I32(panelLine), scale)
	case "Q6K":
		for half := range 2 {
			p.steps(4, 4*half*panelLine, 16*half, at, true)
			p.each(func(r, v int) {
				VPMULLD(Mem{Base: scale, Disp: half*panelLine + 64*v}, p.sum[r][v], p.sum[r][v])
				VPADDD(p.sum[r][v], scaled[r][v], scaled[r][v])
			})
		}
		ADDQ(I32(2*panelLine), scale)
	case "Q2K":
		p.steps(8, 0, 0, at, false)
	}
	ADDQ(I32(8*panelLine), p.w)
	ADDQ(Imm(32), at)
	if kind == "Q4K" {
		CMPQ(at, Imm(128))
		JNE(LabelRef("second"))
		half := field(p.t, panelHalf)
		p.each(func(r, v int) { VMOVUPS(scaled[r][v], Mem{Base: half, Disp: panelLine*r + 64*v}) })
		clearScaled()
		Label("second")
	}
	CMPQ(at, U32(256))
	JNE(LabelRef("part"))

	// w now points past the weights. off has, in integers, the contributions of the offsets.
	pairs, disp := map[string]int{"Q4K": 4, "Q6K": 8, "Q2K": 8}[kind], map[string]int{"Q4K": 8, "Q6K": 16}[kind]*panelLine
	scales := disp + pairs*panelLine // of d, and then of m
	p.eachRow(field(p.t, panelY), func(r, v int, at Mem) {
		from := scaled[r][v]
		switch kind {
		case "Q4K":
			VADDPS(at, from, from)
		case "Q2K":
			from = p.sum[r][v]
		}
		VMOVUPS(from, at)
	}, func(x, sums, y reg.Register) {
		off, dx := [2]reg.VecVirtual{ZMM(), ZMM()}, ZMM()
		for v := range off {
			VPXORD(off[v], off[v], off[v])
		}
		for i := range pairs {
			b := ZMM()
			VPBROADCASTD(Mem{Base: x, Disp: superSums + 4*i}, b)
			for v := range off {
				VPDPWSSD(Mem{Base: p.w, Disp: disp + panelLine*i + 64*v}, b, off[v])
			}
		}
		VBROADCASTSS(Mem{Base: x, Disp: superScale}, dx)
		for v, o := range off {
			s, d, from, to := ZMM(), ZMM(), Mem{Base: sums, Disp: 64 * v}, Mem{Base: y, Disp: 64 * v}
			switch kind {
			case "Q4K":
				VMOVUPS(from, s)
			case "Q6K":
				VPSLLD(Imm(5), o, o)
				VMOVDQU64(from, s)
				VPSUBD(o, s, s)
				VCVTDQ2PS(s, s)
			case "Q2K":
				VCVTDQ2PS(from, s)
			}
			VMULPS(Mem{Base: p.w, Disp: scales + 64*v}, dx, d)
			VMULPS(s, d, d)
			if kind != "Q6K" {
				m := ZMM()
				VCVTDQ2PS(o, o)
				VMULPS(Mem{Base: p.w, Disp: scales + panelLine + 64*v}, dx, m)
				VMULPS(o, m, m)
				VSUBPS(m, d, d)
			}
			VADDPS(to, d, d)
			VMOVUPS(d, to)
		}
	})
	lines := scales/panelLine + 2
	if kind == "Q6K" {
		lines--
	}
	p.end(lines*panelLine, superRow)
}

// eachRow writes a loop over the rows of x. store writes vector v of the sums of row r, at the same place for each
// row. body gets a row, its sums, and its products, of those from y on.
func (p panel) eachRow(y reg.Register, store func(r, v int, at Mem), body func(x, sums, y reg.Register)) {
	sums, to, xs, x, rows := field(p.t, panelHalf), GP64(), GP64(), GP64(), GP64()
	p.each(func(r, v int) { store(r, v, Mem{Base: sums, Disp: panelLine*r + 64*v}) })
	for r, x := range p.x {
		MOVQ(x, Mem{Base: p.t, Disp: panelAt + 8*r})
	}
	MOVQ(y, to)
	LEAQ(Mem{Base: p.t, Disp: panelAt}, xs)
	MOVQ(I32(int32(len(p.x))), rows)
	Label("row")
	MOVQ(Mem{Base: xs}, x)
	body(x, sums, to)
	ADDQ(Imm(8), xs)
	ADDQ(I32(panelLine), sums)
	ADDQ(I32(panelLine), to)
	DECQ(rows)
	JNZ(LabelRef("row"))
}

// group writes the loop over groups of 4 blocks of 32 weights.
func (p panel) group(offset bool) {
	y := sums(len(p.x), 2*panelRows)
	from := field(p.t, panelY)
	p.each(func(r, v int) { VMOVUPS(Mem{Base: from, Disp: panelLine*r + 64*v}, y[r][v]) })
	p.fetch()
	at, scale, block := GP64(), GP64(), GP64() // addresses of a block in the rows, and of its scales in the unit and in the rows
	XORQ(at, at)
	XORQ(block, block)
	LEAQ(Mem{Base: p.w, Disp: panelGroup}, scale)
	Label("part")
	p.steps(8, 0, 0, at, true)
	for r := range p.x {
		sums, dx := ZMM(), ZMM()
		VPBROADCASTD(Mem{Base: p.x[r], Index: block, Scale: 1, Disp: groupSums}, sums)
		VBROADCASTSS(Mem{Base: p.x[r], Index: block, Scale: 1, Disp: groupScale}, dx)
		for v := range 2 {
			s, d := p.sum[r][v], ZMM()
			VPSUBD(sums, s, s)
			VCVTDQ2PS(s, s)
			VMULPS(Mem{Base: scale, Disp: 64 * v}, dx, d)
			VMULPS(s, d, s)
		}
		if offset {
			VPSRAD(Imm(7), sums, sums)
			VCVTDQ2PS(sums, sums)
			for v := range 2 {
				m := ZMM()
				VMULPS(Mem{Base: scale, Disp: groupLen*panelLine + 64*v}, dx, m)
				VMULPS(sums, m, m)
				VADDPS(m, p.sum[r][v], p.sum[r][v])
			}
		}
		for v := range 2 {
			VADDPS(p.sum[r][v], y[r][v], y[r][v])
		}
	}
	ADDQ(I32(panelLine), scale)
	ADDQ(I32(8*panelLine), p.w)
	ADDQ(Imm(4), block)
	ADDQ(Imm(32), at)
	CMPQ(at, I32(128))
	JNE(LabelRef("part"))
	lines := groupLen
	if offset {
		lines *= 2
	}
	p.end(lines*panelLine, groupRow, y...)
}

// end ends the loop, advancing w past the rest of the unit, and the rows by row bytes.
func (p panel) end(rest, row int, y ...[2]reg.VecPhysical) {
	ADDQ(I32(rest), p.w)
	for _, x := range p.x {
		ADDQ(I32(row), x)
	}
	DECQ(p.n)
	JNZ(LabelRef("unit"))
	to := field(p.t, panelY)
	for r := range y {
		for v := range 2 {
			VMOVUPS(y[r][v], Mem{Base: to, Disp: panelLine*r + 64*v})
		}
	}
	VZEROUPPER()
	RET()
}
