package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of type halfWork in package gemm that are behind those that it
// has in common with type work. Package gemm checks them.
const (
	workBlocks = 64
	workConfig = 72
	workEdge   = 80
)

// vex returns the first three bytes of an instruction of map 0F38. They have the upper
// bits of the numbers of the general registers index and base, which may be nil, and a
// tile in field vvvv.
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

// at returns the bytes of the operands of an instruction on a tile and the memory at
// base + index·1 + disp.
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

// amxTile writes a function for C = A·B, or C += A·B, where C is blocks of rows by cols
// tiles, one below the other. One assembly function configures, uses and releases the
// tiles, so that the goroutine cannot lose them. If round is set, C is of bf16 and is not
// added to; the sums of a block go through memory of their own, as no instruction reads
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
		left, deep          = reg.RCX, reg.RDX // the blocks left, and the steps left
		a0, a1, astride     = reg.RSI, reg.R11, reg.R13
		b, bstride          = reg.RDI, reg.R12
		c0, c1, cstride     = reg.R8, reg.R10, reg.R9
		config, step        = reg.RBX, reg.R15
		sum, x, y       int = 0, 4, 6
	)
	load(workConfig, config)
	load(workBlocks, left)
	load(workA, a0)
	load(workC, c0)
	load(workCStride, cstride)
	load(workBStride, bstride)
	MOVQ(U32(64), astride)
	code("LDTILECFG (BX)", append(vex(nil, config, 0, 0), 0x49, byte(number(config)&7))...)
	Label("blocks")
	load(workDeep, deep)
	load(workB, b)
	if rows > 1 {
		MOVQ(deep, a1)
		SHLQ(Imm(10), a1)
		ADDQ(a0, a1)
		MOVQ(cstride, c1)
		SHLQ(Imm(4), c1)
		ADDQ(c0, c1)
	}
	c := []reg.Register{c0, c1}
	if !round {
		load(workAdd, step)
		TESTQ(step, step)
		JZ(LabelRef("zero"))
		for i := range rows {
			for j := range cols {
				tileLoad(sum+2*i+j, c[i], cstride, int8(64*j))
			}
		}
		JMP(LabelRef("steps"))
		Label("zero")
	}
	for i := range rows {
		for j := range cols {
			tileZero(sum + 2*i + j)
		}
	}
	Label("steps")
	MOVQ(bstride, step)
	SHLQ(Imm(4), step)
	Label("loop")
	tileLoad(x, a0, astride, 0)
	for j := range cols {
		tileLoad(y+j, b, bstride, int8(64*j))
		tileDot(sum+j, x, y+j)
	}
	if rows > 1 {
		tileLoad(x+1, a1, astride, 0)
		for j := range cols {
			tileDot(sum+2+j, x+1, y+j)
		}
		ADDQ(I32(1024), a1)
	}
	ADDQ(I32(1024), a0)
	ADDQ(step, b)
	DECQ(deep)
	JNZ(LabelRef("loop"))
	if round {
		edge, pitch := config, step // which are not needed any more in this block
		load(workEdge, edge)
		MOVQ(U32(64*cols), pitch)
		for i := range rows {
			for j := range cols {
				tileStore(sum+2*i+j, edge, pitch, int8(64*j))
			}
			ADDQ(I32(16*64*cols), edge)
		}
		SUBQ(I32(rows*16*64*cols), edge)
		for r := range 16 * rows {
			VMOVUPS(Mem{Base: edge, Disp: 64 * cols * r}, reg.Z0)
			VMOVUPS(Mem{Base: edge, Disp: 64*cols*r + 64}, reg.Z1)
			code("VCVTNE2PS2BF16 Z0, Z1, Z2", 0x62, 0xf2, 0x77, 0x48, 0x72, 0xd0)
			VMOVUPS(reg.Z2, Mem{Base: c0})
			ADDQ(cstride, c0)
		}
		MOVQ(a1, a0)
		DECQ(left)
		JNZ(LabelRef("blocks"))
		code("TILERELEASE", 0xc4, 0xe2, 0x78, 0x49, 0xc0)
		VZEROUPPER()
		RET()
		return
	}
	for i := range rows {
		for j := range cols {
			tileStore(sum+2*i+j, c[i], cstride, int8(64*j))
		}
	}
	if rows > 1 { // the next block begins where the second tiles end
		MOVQ(a1, a0)
		MOVQ(cstride, step)
		SHLQ(Imm(4), step)
		ADDQ(c1, step)
		MOVQ(step, c0)
	}
	DECQ(left)
	JNZ(LabelRef("blocks"))
	code("TILERELEASE", 0xc4, 0xe2, 0x78, 0x49, 0xc0)
	VZEROUPPER()
	RET()
}
