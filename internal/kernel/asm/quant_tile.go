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

// A panel for AMX's tiles has 32 rows of weights, in lines of 128 bytes as other panels do,
// which is the layout of a tile's right side. Weights are signed. Their scales inside a block
// of 256 are multiplied into them, and what takes more than a byte is in two planes:
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
// multiplying them there.
// So the sum of a block of 256 is one sum in a tile, or two.

// tilePlane is the bytes of the sums of two by two tiles, and of one plane of lines.
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

// tiled is a product of a panel with rows of x: as many tiles of rows as are in the argument,
// two at a time, each with the same number of rows. Two by two tiles of sums are stored to
// memory, and scaled from there. All general registers are chosen here, since avo does not
// know what the bytes of an instruction read.
type tiled struct {
	kind string
}

var (
	tilesT               = reg.RAX
	tilesA0, tilesA1     = reg.RSI, reg.R11
	tilesStride, tilesB  = reg.R13, reg.RDI
	tilesPitch, tilesOut = reg.R12, reg.R8  // 128, and where sums are stored
	tilesLow             = reg.R10          // where those of the second row of tiles are
	tilesY, tilesPair    = reg.R9, reg.RCX  // the sums of this pair, and where its rows of x are in the argument
	tilesW, tilesFree    = reg.RBX, reg.RDX // the panel's unit
	tilesAt, tilesLeft   = reg.R15, reg.RBP
)

func beginTiles(kind string) tiled {
	name := "amxPanel" + kind
	onWork(name)
	Doc(name + " adds the products of a panel of weights with tiles of rows of x.")
	Load(Param("t"), tilesT)
	p := tiled{kind}
	p.load(tileConfig, tilesW)
	code("LDTILECFG (BX)", append(vex(nil, tilesW, 0, 0), 0x49, byte(number(tilesW)&7))...)
	p.load(tilePanel, tilesW)
	p.load(tileStride, tilesStride)
	MOVQ(U32(128), tilesPitch)
	XORQ(tilesAt, tilesAt)
	Label("unit")
	p.load(tileY, tilesY)
	LEAQ(Mem{Base: tilesT, Disp: tileX}, tilesPair)
	Label("pair")
	p.fetch()
	MOVQ(Mem{Base: tilesPair}, tilesA0)
	MOVQ(Mem{Base: tilesPair, Disp: 8}, tilesA1)
	ADDQ(tilesAt, tilesA0)
	ADDQ(tilesAt, tilesA1)
	MOVQ(tilesW, tilesB)
	p.load(tileSums, tilesOut)
	p.load(tileRows, tilesLow)
	SHLQ(Imm(7), tilesLow)
	ADDQ(tilesOut, tilesLow)
	return p
}

func (p tiled) load(offset int, r reg.GPPhysical) { MOVQ(Mem{Base: tilesT, Disp: offset}, r) }

// fetch fetches some cache lines of what is read for the next panel.
func (p tiled) fetch() {
	p.load(tileFetch, tilesFree)
	p.load(tileLines, tilesLeft)
	TESTQ(tilesLeft, tilesLeft)
	JZ(LabelRef("fetched"))
	Label("fetch")
	PREFETCHT1(Mem{Base: tilesFree})
	ADDQ(Imm(64), tilesFree)
	DECQ(tilesLeft)
	JNZ(LabelRef("fetch"))
	MOVQ(tilesFree, Mem{Base: tilesT, Disp: tileFetch})
	Label("fetched")
}

// step multiplies what A0, A1 and B point to, disp bytes further on for A, and moves B.
func (p tiled) step(disp, lines int, unsigned bool) {
	tileLoad(4, tilesA0, tilesStride, int8(disp))
	tileLoad(6, tilesB, tilesPitch, 0)
	tileInts(0, 4, 6, unsigned)
	tileLoad(7, tilesB, tilesPitch, 64)
	tileInts(1, 4, 7, unsigned)
	tileLoad(5, tilesA1, tilesStride, int8(disp))
	tileInts(2, 5, 6, unsigned)
	tileInts(3, 5, 7, unsigned)
	ADDQ(I32(lines*panelLine), tilesB)
}

func (p tiled) zero() {
	for i := range 4 {
		tileZero(i)
	}
}

// store stores the sums, and moves the place for them to the next plane.
func (p tiled) store() {
	for v := range 2 {
		tileStore(v, tilesOut, tilesPitch, int8(64*v))
		tileStore(2+v, tilesLow, tilesPitch, int8(64*v))
	}
	ADDQ(I32(tilePlane), tilesOut)
	ADDQ(I32(tilePlane), tilesLow)
}

// rows calls do with what scales the sums of a row, of which rx points to the row of x, and
// the register of the sums to those of its first plane.
func (p tiled) rows(do func(rx reg.GPPhysical)) {
	p.load(tileSums, tilesOut)
	for i, rx := range []reg.GPPhysical{tilesA0, tilesA1} {
		loop := fmt.Sprintf("row%d", i)
		p.load(tileRows, tilesLeft)
		Label(loop)
		do(rx)
		ADDQ(tilesStride, rx)
		ADDQ(tilesPitch, tilesOut)
		ADDQ(tilesPitch, tilesY)
		DECQ(tilesLeft)
		JNZ(LabelRef(loop))
	}
}

// super writes what is done with a unit of 256 weights.
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
				ADDQ(I32(128), tilesA0)
				ADDQ(I32(128), tilesA1)
			}
		}
		if plane < planes-1 {
			SUBQ(I32(256), tilesA0)
			SUBQ(I32(256), tilesA1)
		}
		p.store()
	}
	// A0 and A1 are now where the sums of x are, and B behind the weights.
	for i := range 2 * pairs {
		VMOVUPS(Mem{Base: tilesB, Disp: 64 * i}, zmm(i))
	}
	const d, m = 16, 18
	for v := range 2 {
		VMOVUPS(Mem{Base: tilesB, Disp: panelLine*pairs + 64*v}, zmm(d+v))
		if pairs > 0 {
			VMOVUPS(Mem{Base: tilesB, Disp: panelLine*(pairs+1) + 64*v}, zmm(m+v))
		}
	}
	p.rows(func(rx reg.GPPhysical) {
		dx := Mem{Base: rx, Disp: superScale - superSums}
		for v := range 2 {
			low, high, to := Mem{Base: tilesOut, Disp: 64 * v}, Mem{Base: tilesOut, Disp: tilePlane + 64*v}, Mem{Base: tilesY, Disp: 64 * v}
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

// group writes what is done with a group of 4 blocks of 32 weights.
func (p tiled) group() {
	for b := range groupLen {
		p.zero()
		p.step(32*b, 8, false)
		p.store()
	}
	for i := range 2 * groupLen { // the scales
		VMOVUPS(Mem{Base: tilesB, Disp: 64 * i}, zmm(i))
	}
	p.rows(func(rx reg.GPPhysical) {
		y := [2]reg.VecPhysical{zmm(16), zmm(17)}
		for v := range y {
			VMOVUPS(Mem{Base: tilesY, Disp: 64 * v}, y[v])
		}
		for b := range groupLen {
			dx := Mem{Base: rx, Disp: groupScale + 4*b}
			for v := range y {
				s, product := zmm(20+v), zmm(22+v)
				VCVTDQ2PS(Mem{Base: tilesOut, Disp: tilePlane*b + 64*v}, s)
				VMULPS_BCST(dx, zmm(2*b+v), product)
				VMULPS(s, product, product)
				VADDPS(product, y[v], y[v])
			}
		}
		for v := range y {
			VMOVUPS(y[v], Mem{Base: tilesY, Disp: 64 * v})
		}
	})
	p.end(groupRow)
}

// end ends the loops over pairs of tiles and over units, which have `row` bytes in the rows of x.
func (p tiled) end(row int) {
	ADDQ(Imm(16), tilesPair)
	p.load(tilePairs, tilesFree)
	SHLQ(Imm(4), tilesFree)
	LEAQ(Mem{Base: tilesT, Index: tilesFree, Scale: 1, Disp: tileX}, tilesFree)
	CMPQ(tilesPair, tilesFree)
	JNE(LabelRef("pair"))
	ADDQ(I32(row), tilesAt)
	p.load(tileUnit, tilesFree)
	ADDQ(tilesFree, tilesW)
	DECQ(Mem{Base: tilesT, Disp: tileN})
	JNZ(LabelRef("unit"))
	code("TILERELEASE", 0xc4, 0xe2, 0x78, 0x49, 0xc0)
	VZEROUPPER()
	RET()
}
