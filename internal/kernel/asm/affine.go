package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// Offsets of the fields of type affineArgs in package blocks, which checks them.
const (
	affineGroups  = 0
	affineNumbers = 8
	affineWords   = 16
	affineScales  = 24
	affineBiases  = 32
	affineEach    = 40
)

// affine writes the functions decoding MLX's affine quantization: integers of the given number of
// bits in 32-bit words, times the scale of their group, plus its bias, each rounded.
func (q quantSet) affine(bits int) {
	name := fmt.Sprintf("%sAffine%d", q.name, bits)
	onWork(name)
	Doc(name + " decodes groups of integers with a scale and a bias.")
	t := Load(Param("t"), GP64())
	n, to, w := field(t, affineGroups), field(t, affineNumbers), field(t, affineWords)
	scales, biases, each := field(t, affineScales), field(t, affineBiases), field(t, affineEach)
	if q.wide {
		q.table.align()
	}
	index, shift, low := q.vector(), q.vector(), q.vector()
	if bits == 4 {
		VMOVUPS(q.table.longs(func(i int) int { return i % 8 * 4 }), shift)
		VMOVUPS(q.table.longs(func(int) int { return 15 }), low)
		if q.wide {
			VMOVUPS(q.table.longs(func(i int) int { return i / 8 }), index)
		}
	}
	Label("groups")
	scale, bias, left := q.vector(), q.vector(), GP64()
	VBROADCASTSS(Mem{Base: scales}, scale)
	VBROADCASTSS(Mem{Base: biases}, bias)
	MOVQ(each, left)
	Label("numbers")
	v := q.vector()
	switch {
	case bits == 8:
		VPMOVZXBD(Mem{Base: w}, v)
	case q.wide:
		VPBROADCASTQ(Mem{Base: w}, v)
		VPERMD(v, index, v)
		VPSRLVD(shift, v, v)
		VPANDD(low, v, v)
	default:
		VPBROADCASTD(Mem{Base: w}, v)
		VPSRLVD(shift, v, v)
		VPAND(low, v, v)
	}
	VCVTDQ2PS(v, v)
	VMULPS(scale, v, v)
	VADDPS(bias, v, v)
	VMOVUPS(v, Mem{Base: to})
	ADDQ(Imm(uint64(q.bytes())), to)
	ADDQ(Imm(uint64(q.bytes()/4*bits/8)), w)
	DECQ(left)
	JNZ(LabelRef("numbers"))
	ADDQ(Imm(4), scales)
	ADDQ(Imm(4), biases)
	DECQ(n)
	JNZ(LabelRef("groups"))
	VZEROUPPER()
	RET()
	q.table.base = nil
}
