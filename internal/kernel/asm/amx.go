package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of type halfWork in package gemm following the fields in common with type
// work. Package gemm checks them.
const (
	workBlocks = 64
	workConfig = 72
	workEdge   = 80

	workRowStride  = 88
	workSquareStep = 96
	workSixteen    = 104
)

// vex returns the first three bytes of an instruction of map 0F38. They hold the upper bits of the
// numbers of the general registers index and base, which may be nil, and a tile in field vvvv.
func vex(index, base reg.Register, tile int, prefix byte) []byte {
	not := func(r reg.Register) byte {
		if r != nil && number(r) >= 8 {
			return 0
		}
		return 1
	}
	return []byte{0xc4, 1<<7 | not(index)<<6 | not(base)<<5 | 2, byte(^tile&15)<<3 | prefix}
}

// number returns the number of a general register in instructions.
func number(r reg.Register) int {
	for i, x := range []reg.Register{reg.RAX, reg.RCX, reg.RDX, reg.RBX, reg.RSP, reg.RBP, reg.RSI, reg.RDI,
		reg.R8, reg.R9, reg.R10, reg.R11, reg.R12, reg.R13, reg.R14, reg.R15} {
		if x == r {
			return i
		}
	}
	panic("not a general register")
}

// at returns the bytes of the operands of an instruction on a tile and the memory at base + index·1
// + disp.
func at(tile int, base, index reg.Register, disp int8) []byte {
	return []byte{1<<6 | byte(tile)<<3 | 4, byte(number(index)&7)<<3 | byte(number(base)&7), byte(disp)}
}

const prefixF3, prefixF2 = 2, 3

func tileLoad(tile int, base, stride reg.Register, disp int8) {
	code(fmt.Sprintf("TILELOADD %d(%s)(%s*1), TMM%d", disp, base.Asm(), stride.Asm(), tile), append(append(vex(stride, base, 0, prefixF2), 0x4b), at(tile, base, stride, disp)...)...)
}

func tileStore(tile int, base, stride reg.Register, disp int8) {
	code(fmt.Sprintf("TILESTORED TMM%d, %d(%s)(%s*1)", tile, disp, base.Asm(), stride.Asm()), append(append(vex(stride, base, 0, prefixF3), 0x4b), at(tile, base, stride, disp)...)...)
}

func tileZero(tile int) {
	code(fmt.Sprintf("TILEZERO TMM%d", tile), append(vex(nil, nil, 0, prefixF2), 0x49, 0xc0|byte(tile)<<3)...)
}

// tileDot is TDPBF16PS: sum += x·y.
func tileDot(sum, x, y int) {
	code(fmt.Sprintf("TDPBF16PS TMM%d, TMM%d, TMM%d", y, x, sum), append(vex(nil, nil, y, prefixF3), 0x5c, 0xc0|byte(sum)<<3|byte(x))...)
}

// amxTile writes a function for C = A·B, or C += A·B, where C is blocks of rows by cols tiles,
// stacked vertically. A is read in place, or from squares. One assembly function configures, uses
// and releases the tiles, so that the goroutine cannot lose them. If round is set, C is bf16 and is
// not added to; the sums of a block go through a buffer of their own, because no instruction reads
// vectors from tiles.
func amxTile(rows, cols int, round bool) {
	name, what := fmt.Sprintf("amxTile%dx%d", rows, cols), "multiplies"
	if round {
		name, what = name+"Round", "multiplies and rounds"
	}
	onWork(name)
	Doc(fmt.Sprintf("%s %s blocks of %d by %d tiles of bf16.", name, what, rows, cols))
	t := Load(Param("t"), reg.RAX)
	load := func(offset int, r reg.GPPhysical) { MOVQ(Mem{Base: t, Disp: offset}, r) }
	var (
		left, steps               = reg.RCX, reg.RDX // remaining blocks and steps
		a0, a1, astride, next     = reg.RSI, reg.R11, reg.R13, reg.R12
		b, bstride                = reg.RDI, reg.R9
		c, tmp                    = reg.R8, reg.RBX
		start, sixteen            = reg.R10, reg.R15 // start of A in this block, and the distance to 16 rows below
		sum, x, y             int = 0, 4, 6
	)
	load(workConfig, tmp)
	code("LDTILECFG (BX)", append(vex(nil, tmp, 0, 0), 0x49, byte(number(tmp)&7))...)
	load(workBlocks, left)
	load(workA, start)
	load(workSixteen, sixteen)
	load(workC, c)
	load(workRowStride, astride)
	load(workSquareStep, next)
	MOVQ(U32(64*cols), bstride)
	// each calls do for every sum, passing the address of its part of C and the row stride.
	each := func(do func(tile int, base, stride reg.Register, disp int8)) {
		cstride, row := steps, tmp // free between blocks
		load(workCStride, cstride)
		MOVQ(c, row)
		for i := range rows {
			for j := range cols {
				do(sum+2*i+j, row, cstride, int8(64*j))
			}
			if i < rows-1 {
				rows16 := a1 // free between blocks, too
				MOVQ(cstride, rows16)
				SHLQ(Imm(4), rows16)
				ADDQ(rows16, row)
			}
		}
	}
	zero := func() {
		for i := range rows {
			for j := range cols {
				tileZero(sum + 2*i + j)
			}
		}
	}
	Label("blocks")
	if !round {
		CMPQ(Mem{Base: t, Disp: workAdd}, Imm(0))
		JEQ(LabelRef("zero"))
		each(tileLoad)
		JMP(LabelRef("steps"))
		Label("zero")
	}
	zero()
	Label("steps")
	load(workDeep, steps)
	load(workB, b)
	MOVQ(start, a0)
	if rows > 1 {
		LEAQ(Mem{Base: start, Index: sixteen, Scale: 1}, a1)
	}
	Label("loop")
	tileLoad(x, a0, astride, 0)
	tileLoad(y, b, bstride, 0)
	tileDot(sum, x, y)
	if cols > 1 {
		tileLoad(y+1, b, bstride, 64)
		tileDot(sum+1, x, y+1)
	}
	if rows > 1 {
		tileLoad(x+1, a1, astride, 0)
		for j := range cols {
			tileDot(sum+2+j, x+1, y+j)
		}
		ADDQ(next, a1)
	}
	ADDQ(next, a0)
	ADDQ(I32(16*64*cols), b)
	DECQ(steps)
	JNZ(LabelRef("loop"))

	if round {
		edge, cstride := tmp, steps
		load(workEdge, edge)
		load(workCStride, cstride)
		for i := range rows {
			for j := range cols {
				tileStore(sum+2*i+j, edge, bstride, int8(64*j))
			}
			ADDQ(I32(16*64*cols), edge)
		}
		SUBQ(I32(rows*16*64*cols), edge)
		for r := range 16 * rows {
			VMOVUPS(Mem{Base: edge, Disp: 64 * cols * r}, reg.Z0)
			VMOVUPS(Mem{Base: edge, Disp: 64*cols*r + 64}, reg.Z1)
			code("VCVTNE2PS2BF16 Z0, Z1, Z2", 0x62, 0xf2, 0x77, 0x48, 0x72, 0xd0)
			VMOVUPS(reg.Z2, Mem{Base: c})
			ADDQ(cstride, c)
		}
	} else {
		each(tileStore)
		cstride := steps
		SHLQ(Imm(uint64(3+rows)), cstride)
		ADDQ(cstride, c)
	}
	LEAQ(Mem{Base: start, Index: sixteen, Scale: uint8(rows)}, start)
	DECQ(left)
	JNZ(LabelRef("blocks"))
	code("TILERELEASE", 0xc4, 0xe2, 0x78, 0x49, 0xc0)
	VZEROUPPER()
	RET()
}
