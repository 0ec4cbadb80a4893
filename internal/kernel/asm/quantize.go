package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of type roundArgs in package blocks, which checks them.
const (
	roundN      = 0
	roundX      = 8
	roundRow    = 16
	roundFactor = 24
	roundOffset = 28
	roundPlaces = 32
	roundPairs  = 64
)

// quantize writes the functions rounding rows for products with weights in blocks. AVX2 is fast
// enough: this is little work compared to the products.
func (q quantSet) quantize() {
	q.roundSuper()
	q.roundGroup()
}

// rowRounding holds a function's registers.
type rowRounding struct {
	quantSet
	t, n, x, row reg.Register
}

func (q quantSet) beginRound(kind, doc string) *rowRounding {
	name := "avx2Round" + kind
	TEXT(name, NOSPLIT, "func(t *byte)")
	Pragma("noescape")
	Doc(name + " rounds " + doc + ".")
	r := &rowRounding{quantSet: q, t: Load(Param("t"), GP64())}
	r.n, r.x, r.row = field(r.t, roundN), field(r.t, roundX), field(r.t, roundRow)
	Label("loop")
	return r
}

// end advances by a row. x has been advanced before.
func (r *rowRounding) end(row int) {
	ADDQ(I32(row), r.row)
	DECQ(r.n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// scale returns dx of the next n elements, its inverse in all lanes, and a mask that is 0 if all
// elements become 0.
func (r *rowRounding) scale(n int) (scale, inverse, mask reg.VecVirtual) {
	var top [4]reg.VecVirtual
	size, at := YMM(), GP64()
	VMOVDQU(r.table.longs(func(int) int { return 0x7fffffff }), size)
	for i := range top {
		top[i] = YMM()
		VPAND(Mem{Base: r.x, Disp: 32 * i}, size, top[i])
	}
	if n > 32 {
		MOVQ(U32(128), at)
		Label("largest")
		for i := range top {
			v := YMM()
			VPAND(Mem{Base: r.x, Index: at, Scale: 1, Disp: 32 * i}, size, v)
			VPMAXUD(v, top[i], top[i])
		}
		ADDQ(I32(128), at)
		CMPQ(at, I32(4*n))
		JNE(LabelRef("largest"))
	}
	VPMAXUD(top[1], top[0], top[0])
	VPMAXUD(top[3], top[2], top[2])
	VPMAXUD(top[2], top[0], top[0])
	x, y := XMM(), XMM()
	VEXTRACTI128(Imm(1), top[0], y)
	VPMAXUD(y, top[0].AsX(), x)
	VPSHUFD(Imm(0x4e), x, y)
	VPMAXUD(y, x, x)
	VPSHUFD(Imm(0xb1), x, y)
	VPMAXUD(y, x, x)
	largest, inf, all := GP32(), GP32(), GP32()
	VMOVD(x, largest)
	scale = XMM()
	one := XMM()
	VDIVSS(r.table.longs(func(int) int { return 0x42fe0000 }), x, scale) // 127
	VMOVSS(r.table.longs(func(int) int { return 0x3f800000 }), one)
	VDIVSS(scale, one, one)
	VMOVD(one, inf)
	MOVL(I32(-1), all)
	CMPL(largest, U32(0x7f800000))
	JAE(LabelRef("nan"))
	CMPL(inf, U32(0x7f800000))
	JCS(LabelRef("ok"))
	XORL(all, all)
	VMOVD(all, scale)
	JMP(LabelRef("ok"))
	Label("nan")
	MOVL(U32(0x7fc00000), all)
	VMOVD(all, scale)
	XORL(all, all)
	Label("ok")
	inverse, mask = YMM(), YMM()
	VBROADCASTSS(one, inverse)
	VMOVD(all, one)
	VPBROADCASTD(one, mask)
	return scale, inverse, mask
}

// bytes32 rounds the 32 elements starting at number `from`, stores them, and returns their sums by
// 4 as int32. The sums of the first 16 elements are in the lower 128 bits.
func (r *rowRounding) bytes32(from int, to Mem, inverse, mask reg.VecVirtual) reg.VecVirtual {
	var v [4]reg.VecVirtual
	for i := range v {
		v[i] = YMM()
		VMULPS(Mem{Base: r.x, Disp: 4 * (from + 8*i)}, inverse, v[i])
		VCVTPS2DQ(v[i], v[i])
		VPAND(mask, v[i], v[i])
	}
	VPACKSSDW(v[1], v[0], v[0])
	VPACKSSDW(v[3], v[2], v[2])
	VPACKSSWB(v[2], v[0], v[0])
	index := YMM()
	VMOVDQU(r.table.longs(func(i int) int { return [8]int{0, 4, 1, 5, 2, 6, 3, 7}[i%8] }), index)
	VPERMD(v[0], index, v[0])
	VMOVDQU(v[0], to)
	ones := YMM()
	VMOVDQU(r.table.same(1), ones)
	VPMADDUBSW(v[0], ones, v[0])
	VPMADDWD(r.table.words(func(int) int { return 1 }), v[0], v[0])
	return v[0]
}

// four returns the sums of v[0] to v[3], separately for their lower and their upper 128 bits.
func four(v [4]reg.VecVirtual) reg.VecVirtual {
	VPHADDD(v[1], v[0], v[0])
	VPHADDD(v[3], v[2], v[2])
	VPHADDD(v[2], v[0], v[0])
	return v[0]
}

// roundSuper writes the function rounding blocks of 256. The arguments give the destination of each
// 32 elements, and whether the sums of every 16 elements are added in pairs.
func (q quantSet) roundSuper() {
	r := q.beginRound("Super", "blocks of 256")
	scale, inverse, mask := r.scale(256)
	VMULSS(Mem{Base: r.t, Disp: roundFactor}, scale, scale)
	VMOVSS(scale, Mem{Base: r.row, Disp: superScale})
	at := GP64()
	XORQ(at, at)
	Label("half")
	var sums [4]reg.VecVirtual
	for i := range sums {
		place := GP64()
		MOVL(Mem{Base: r.t, Index: at, Scale: 1, Disp: roundPlaces + 4*i}, place.As32())
		sums[i] = r.bytes32(32*i, Mem{Base: r.row, Index: place, Scale: 1}, inverse, mask)
	}
	s, high := four(sums), XMM() // the sums of the first 16 of each 32, then of the others
	VEXTRACTI128(Imm(1), s, high)
	VPACKSSDW(high, s.AsX(), s.AsX())
	VPSRLDQ(Imm(8), s.AsX(), high)
	VPUNPCKLWD(high, s.AsX(), high)
	VMOVDQU(high, Mem{Base: r.row, Index: at, Scale: 1, Disp: superSums})
	ADDQ(I32(4*128), r.x)
	ADDQ(Imm(16), at)
	CMPQ(at, Imm(32))
	JNE(LabelRef("half"))
	CMPL(Mem{Base: r.t, Disp: roundPairs}, Imm(0))
	JE(LabelRef("next"))
	VMOVDQU(Mem{Base: r.row, Disp: superSums}, high)
	VPHADDW(Mem{Base: r.row, Disp: superSums + 16}, high, high)
	VMOVDQU(high, Mem{Base: r.row, Disp: superSums})
	VPXOR(high, high, high)
	VMOVDQU(high, Mem{Base: r.row, Disp: superSums + 16})
	Label("next")
	r.end(superRow)
}

// roundGroup writes the function rounding 4 blocks of 32 at a time.
func (q quantSet) roundGroup() {
	r := q.beginRound("Group", "4 blocks of 32 at a time")
	at, sum := GP64(), GP32() // at advances by 4 bytes for each block
	XORQ(at, at)
	Label("block")
	scale, inverse, mask := r.scale(32)
	VMOVSS(scale, Mem{Base: r.row, Index: at, Scale: 1, Disp: groupScale})
	s, high, x := r.bytes32(0, Mem{Base: r.row, Index: at, Scale: 8}, inverse, mask), XMM(), XMM()
	VEXTRACTI128(Imm(1), s, high)
	VPADDD(high, s.AsX(), x)
	VPHADDD(x, x, x)
	VPHADDD(x, x, x)
	VMOVD(x, sum)
	IMULL(Mem{Base: r.t, Disp: roundOffset}, sum)
	MOVL(sum, Mem{Base: r.row, Index: at, Scale: 1, Disp: groupSums})
	ADDQ(I32(4*32), r.x)
	ADDQ(Imm(4), at)
	CMPQ(at, Imm(16))
	JNE(LabelRef("block"))
	r.end(groupRow)
}
