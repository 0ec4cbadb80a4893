package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of type tileArgs in package blocks, which checks them.
const (
	tileN      = 0
	tilePanel  = 8
	tileUnit   = 16
	tileX      = 24
	tileStride = 56
	tileY      = 64
	tileRows   = 72
	tilePairs  = 80
	tileConfig = 88
	tileSums   = 96
	tileFetch  = 104
	tileLines  = 112
)

// A panel for AMX's tiles has 32 rows of weights, in lines of 128 bytes like other panels, which is
// the layout of a tile's right-hand side. Weights are signed. Their scales within a block of 256
// are multiplied into them, splitting results of more than a byte into two planes:
//
//	q4_k          64 lines times the scale's lower 3 bits, 64 times the upper 3 bits,
//	              4 pairs of offsets, d, m
//	q6_k          64 lines of the lower 8 bits of the weight, less 32, times its scale (these
//	              are unsigned), 64 of the upper bits, d
//	q2_k          64 lines, 8 pairs of offsets, d, m
//	q8_0, mxfp4   32 lines, 4 scales
//	groups        32 lines, 4 scales (f32), 4 lines that are not used
//
// Blocks with offsets stay in the panels of vectors: scaling their sums takes as long as
// multiplying them there. So the sum of a block of 256 is one sum in a tile, or two.

// tilePlane is the size in bytes of the sums of two by two tiles, and of one plane of lines.
const tilePlane = 32 * 128

// tileInts is TDPBSSD, sum += x·y for tiles of int8, or TDPBSUD if the numbers of y are
// unsigned.
func tileInts(sum, x, y int, unsigned bool) {
	name, prefix := "TDPBSSD", byte(prefixF2)
	if unsigned {
		name, prefix = "TDPBSUD", prefixF3
	}
	code(fmt.Sprintf("%s TMM%d, TMM%d, TMM%d", name, y, x, sum), append(vex(nil, nil, y, prefix), 0x5e, 0xc0|byte(sum)<<3|byte(x))...)
}

// tiles writes the products of panels for tiles.
func (q quantSet) tiles() {
	for _, kind := range []string{"Q4K", "Q6K", "Q2K"} {
		beginTiles(kind).super()
	}
	beginTiles("Block").group()
}

// tiled is a product of a panel with rows of x: as many tiles of rows as the argument gives, two at
// a time, each with the same number of rows. Two by two tiles of sums are stored to memory, and
// scaled from there. All general registers are chosen here, because avo does not see the registers
// read by an instruction written as bytes.
type tiled struct {
	kind string
}

// tileRegisters are the general registers of a product of tiles.
type tileRegisters struct {
	t, a0, a1, stride, b reg.GPPhysical
	pitch, out           reg.GPPhysical // 128, and the address for storing sums
	low                  reg.GPPhysical // address of the sums of the second row of tiles
	y, pair              reg.GPPhysical // the sums of this pair, and the position of its rows of x in the argument
	w, free              reg.GPPhysical // the panel's unit
	at, left             reg.GPPhysical
}

func tileRegs() tileRegisters {
	return tileRegisters{
		t: reg.RAX, a0: reg.RSI, a1: reg.R11, stride: reg.R13, b: reg.RDI, pitch: reg.R12, out: reg.R8, low: reg.R10,
		y: reg.R9, pair: reg.RCX, w: reg.RBX, free: reg.RDX, at: reg.R15, left: reg.RBP,
	}
}

func beginTiles(kind string) tiled {
	name := "amxPanel" + kind
	onWork(name)
	Doc(name + " adds the products of a panel of weights with tiles of rows of x.")
	Load(Param("t"), tileRegs().t)
	p := tiled{kind}
	p.load(tileConfig, tileRegs().w)
	code("LDTILECFG (BX)", append(vex(nil, tileRegs().w, 0, 0), 0x49, byte(number(tileRegs().w)&7))...)
	p.load(tilePanel, tileRegs().w)
	p.load(tileStride, tileRegs().stride)
	MOVQ(U32(128), tileRegs().pitch)
	XORQ(tileRegs().at, tileRegs().at)
	Label("unit")
	p.load(tileY, tileRegs().y)
	LEAQ(Mem{Base: tileRegs().t, Disp: tileX}, tileRegs().pair)
	Label("pair")
	p.fetch()
	MOVQ(Mem{Base: tileRegs().pair}, tileRegs().a0)
	MOVQ(Mem{Base: tileRegs().pair, Disp: 8}, tileRegs().a1)
	ADDQ(tileRegs().at, tileRegs().a0)
	ADDQ(tileRegs().at, tileRegs().a1)
	MOVQ(tileRegs().w, tileRegs().b)
	p.load(tileSums, tileRegs().out)
	p.load(tileRows, tileRegs().low)
	SHLQ(Imm(7), tileRegs().low)
	ADDQ(tileRegs().out, tileRegs().low)
	return p
}

func (p tiled) load(offset int, r reg.GPPhysical) { MOVQ(Mem{Base: tileRegs().t, Disp: offset}, r) }

// fetch prefetches some cache lines of the next panel.
func (p tiled) fetch() {
	p.load(tileFetch, tileRegs().free)
	p.load(tileLines, tileRegs().left)
	TESTQ(tileRegs().left, tileRegs().left)
	JZ(LabelRef("fetched"))
	Label("fetch")
	PREFETCHT1(Mem{Base: tileRegs().free})
	ADDQ(Imm(64), tileRegs().free)
	DECQ(tileRegs().left)
	JNZ(LabelRef("fetch"))
	MOVQ(tileRegs().free, Mem{Base: tileRegs().t, Disp: tileFetch})
	Label("fetched")
}

// step multiplies the tiles at A0, A1 and B, reading A disp bytes further on, and advances B.
func (p tiled) step(disp, lines int, unsigned bool) {
	tileLoad(4, tileRegs().a0, tileRegs().stride, int8(disp))
	tileLoad(6, tileRegs().b, tileRegs().pitch, 0)
	tileInts(0, 4, 6, unsigned)
	tileLoad(7, tileRegs().b, tileRegs().pitch, 64)
	tileInts(1, 4, 7, unsigned)
	tileLoad(5, tileRegs().a1, tileRegs().stride, int8(disp))
	tileInts(2, 5, 6, unsigned)
	tileInts(3, 5, 7, unsigned)
	ADDQ(I32(lines*panelLine), tileRegs().b)
}

func (p tiled) zero() {
	for i := range 4 {
		tileZero(i)
	}
}

// store stores the sums, and advances their address to the next plane.
func (p tiled) store() {
	for v := range 2 {
		tileStore(v, tileRegs().out, tileRegs().pitch, int8(64*v))
		tileStore(2+v, tileRegs().low, tileRegs().pitch, int8(64*v))
	}
	ADDQ(I32(tilePlane), tileRegs().out)
	ADDQ(I32(tilePlane), tileRegs().low)
}

// rows writes loops over the rows. do writes the instructions scaling the sums of a row, with rx
// pointing to the row of x, and register out to the row's sums in the first plane.
func (p tiled) rows(do func(rx reg.GPPhysical)) {
	p.load(tileSums, tileRegs().out)
	for i, rx := range []reg.GPPhysical{tileRegs().a0, tileRegs().a1} {
		loop := fmt.Sprintf("row%d", i)
		p.load(tileRows, tileRegs().left)
		Label(loop)
		do(rx)
		ADDQ(tileRegs().stride, rx)
		ADDQ(tileRegs().pitch, tileRegs().out)
		ADDQ(tileRegs().pitch, tileRegs().y)
		DECQ(tileRegs().left)
		JNZ(LabelRef(loop))
	}
}

// super writes the instructions for a unit of 256 weights.
func (p tiled) super() {
	planes, pairs := 2, map[string]int{"Q4K": 4, "Q6K": 0, "Q2K": 8}[p.kind]
	if p.kind == "Q2K" {
		planes = 1
	}
	for plane := range planes {
		p.zero()
		for step := range 4 {
			p.step(step%2*64, 16, p.kind == "Q6K" && plane == 0)
			if step%2 == 1 {
				ADDQ(I32(128), tileRegs().a0)
				ADDQ(I32(128), tileRegs().a1)
			}
		}
		if plane < planes-1 {
			SUBQ(I32(256), tileRegs().a0)
			SUBQ(I32(256), tileRegs().a1)
		}
		p.store()
	}
	// A0 and A1 now point to the sums of x, and B points past the weights.
	for i := range 2 * pairs {
		VMOVUPS(Mem{Base: tileRegs().b, Disp: 64 * i}, zmm(i))
	}
	const d, m = 16, 18
	for v := range 2 {
		VMOVUPS(Mem{Base: tileRegs().b, Disp: panelLine*pairs + 64*v}, zmm(d+v))
		if pairs > 0 {
			VMOVUPS(Mem{Base: tileRegs().b, Disp: panelLine*(pairs+1) + 64*v}, zmm(m+v))
		}
	}
	p.rows(func(rx reg.GPPhysical) {
		dx := Mem{Base: rx, Disp: superScale - superSums}
		for v := range 2 {
			low, high, to := Mem{Base: tileRegs().out, Disp: 64 * v}, Mem{Base: tileRegs().out, Disp: tilePlane + 64*v}, Mem{Base: tileRegs().y, Disp: 64 * v}
			s, o, product := zmm(20+v), zmm(22+v), zmm(24+v)
			switch p.kind {
			case "Q4K":
				VPSLLD(Imm(3), high, s)
				VPADDD(low, s, s)
				VCVTDQ2PS(s, s)
			case "Q6K":
				VPSLLD(Imm(8), high, s)
				VPADDD(low, s, s)
				VCVTDQ2PS(s, s)
			default:
				VCVTDQ2PS(low, s)
			}
			VMULPS_BCST(dx, zmm(d+v), product)
			VMULPS(s, product, product)
			if pairs > 0 {
				VPXORD(o, o, o)
				for i := range pairs {
					VPDPWSSD_BCST(Mem{Base: rx, Disp: 4 * i}, zmm(2*i+v), o)
				}
				VCVTDQ2PS(o, o)
				VMULPS_BCST(dx, zmm(m+v), s)
				VMULPS(o, s, s)
				VSUBPS(s, product, product)
			}
			VADDPS(to, product, product)
			VMOVUPS(product, to)
		}
	})
	p.end(superRow)
}

// group writes the instructions for a group of 4 blocks of 32 weights.
func (p tiled) group() {
	for b := range groupLen {
		p.zero()
		p.step(32*b, 8, false)
		p.store()
	}
	for i := range 2 * groupLen { // the scales
		VMOVUPS(Mem{Base: tileRegs().b, Disp: 64 * i}, zmm(i))
	}
	p.rows(func(rx reg.GPPhysical) {
		y := [2]reg.VecPhysical{zmm(16), zmm(17)}
		for v := range y {
			VMOVUPS(Mem{Base: tileRegs().y, Disp: 64 * v}, y[v])
		}
		for b := range groupLen {
			dx := Mem{Base: rx, Disp: groupScale + 4*b}
			for v := range y {
				s, product := zmm(20+v), zmm(22+v)
				VCVTDQ2PS(Mem{Base: tileRegs().out, Disp: tilePlane*b + 64*v}, s)
				VMULPS_BCST(dx, zmm(2*b+v), product)
				VMULPS(s, product, product)
				VADDPS(product, y[v], y[v])
			}
		}
		for v := range y {
			VMOVUPS(y[v], Mem{Base: tileRegs().y, Disp: 64 * v})
		}
	})
	p.end(groupRow)
}

// end ends the loops over pairs of tiles and over units of `row` bytes in the rows of x.
func (p tiled) end(row int) {
	ADDQ(Imm(16), tileRegs().pair)
	p.load(tilePairs, tileRegs().free)
	SHLQ(Imm(4), tileRegs().free)
	LEAQ(Mem{Base: tileRegs().t, Index: tileRegs().free, Scale: 1, Disp: tileX}, tileRegs().free)
	CMPQ(tileRegs().pair, tileRegs().free)
	JNE(LabelRef("pair"))
	ADDQ(I32(row), tileRegs().at)
	p.load(tileUnit, tileRegs().free)
	ADDQ(tileRegs().free, tileRegs().w)
	DECQ(Mem{Base: tileRegs().t, Disp: tileN})
	JNZ(LabelRef("unit"))
	code("TILERELEASE", 0xc4, 0xe2, 0x78, 0x49, 0xc0)
	VZEROUPPER()
	RET()
}
