package main

import (
	"fmt"

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
)

// quantize writes the functions that round rows for products with weights in blocks. AVX2
// is fast enough: this is little work beside the products.
func (q quantSet) quantize() {
	q.roundSuper("Q4K", [8]int{0, 2, 1, 3, 4, 6, 5, 7}, true)
	q.roundSuper("Q2K", [8]int{0, 4, 1, 5, 2, 6, 3, 7}, false)
	q.roundSuper("Q6K", [8]int{0, 1, 2, 3, 4, 5, 6, 7}, false)
	q.roundGroup()
}

// rowRounding is a function's registers.
type rowRounding struct {
	quantSet
	t, n, x, row reg.Register
	labels       int
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

func (r *rowRounding) end(elements, row int) {
	ADDQ(I32(4*elements), r.x)
	ADDQ(I32(row), r.row)
	DECQ(r.n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// scale returns dx of the n elements from `from` on, its inverse in all lanes, and a mask
// that is 0 if all elements become 0.
func (r *rowRounding) scale(from, n int) (scale, inverse, mask reg.VecVirtual) {
	var top [4]reg.VecVirtual
	for i := range n / 8 {
		v := YMM()
		VMOVUPS(Mem{Base: r.x, Disp: 4 * (from + 8*i)}, v)
		VPAND(r.table.longs(func(int) int { return 0x7fffffff }), v, v)
		if i < len(top) {
			top[i] = v
		} else {
			VPMAXUD(v, top[i%4], top[i%4])
		}
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
	r.labels++
	nan, ok := fmt.Sprintf("nan%d", r.labels), fmt.Sprintf("ok%d", r.labels)
	CMPL(largest, U32(0x7f800000))
	JAE(LabelRef(nan))
	CMPL(inf, U32(0x7f800000))
	JCS(LabelRef(ok))
	XORL(all, all)
	VMOVD(all, scale)
	JMP(LabelRef(ok))
	Label(nan)
	MOVL(U32(0x7fc00000), all)
	VMOVD(all, scale)
	XORL(all, all)
	Label(ok)
	inverse, mask = YMM(), YMM()
	VBROADCASTSS(one, inverse)
	VMOVD(all, one)
	VPBROADCASTD(one, mask)
	return scale, inverse, mask
}

// bytes32 rounds 32 elements, stores them at disp, and returns their sums by 4 as int32.
// The sums of the first 16 elements are in the lower 128 bits.
func (r *rowRounding) bytes32(from, disp int, inverse, mask reg.VecVirtual) reg.VecVirtual {
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
	VMOVDQU(v[0], Mem{Base: r.row, Disp: disp})
	ones := YMM()
	VMOVDQU(r.table.same(1), ones)
	VPMADDUBSW(v[0], ones, v[0])
	VPMADDWD(r.table.words(func(int) int { return 1 }), v[0], v[0])
	return v[0]
}

// four returns the sums of v[0] to v[3]: of their lower 128 bits in the lower 128 bits, and
// of their upper ones in the upper.
func four(v [4]reg.VecVirtual) reg.VecVirtual {
	VPHADDD(v[1], v[0], v[0])
	VPHADDD(v[3], v[2], v[2])
	VPHADDD(v[2], v[0], v[0])
	return v[0]
}

// roundSuper writes the function that rounds blocks of 256. order says where each 32
// elements go.
func (q quantSet) roundSuper(kind string, order [8]int, pairs bool) {
	r := q.beginRound(kind, "blocks of 256")
	scale, inverse, mask := r.scale(0, 256)
	VMULSS(Mem{Base: r.t, Disp: roundFactor}, scale, scale)
	VMOVSS(scale, Mem{Base: r.row, Disp: superScale})
	var place [8]int
	for at, j := range order {
		place[j] = at
	}
	var half [2]reg.VecVirtual
	for h := range half {
		var sums [4]reg.VecVirtual
		for i := range sums {
			j := 4*h + i
			sums[i] = r.bytes32(32*j, 32*place[j], inverse, mask)
		}
		half[h] = four(sums)
	}
	s, high := half[0], XMM()
	VPACKSSDW(half[1], s, s) // the sums of the first 16 of each 32, then of the others
	VEXTRACTI128(Imm(1), s, high)
	low, other := XMM(), XMM()
	if pairs {
		VPADDW(high, s.AsX(), low)
		VPXOR(other, other, other)
	} else {
		VPUNPCKHWD(high, s.AsX(), other)
		VPUNPCKLWD(high, s.AsX(), low)
	}
	VMOVDQU(low, Mem{Base: r.row, Disp: superSums})
	VMOVDQU(other, Mem{Base: r.row, Disp: superSums + 16})
	r.end(256, superRow)
}

// roundGroup writes the function that rounds 4 blocks of 32 at a time.
func (q quantSet) roundGroup() {
	r := q.beginRound("Group", "4 blocks of 32 at a time")
	var sums [4]reg.VecVirtual
	for b := range sums {
		scale, inverse, mask := r.scale(32*b, 32)
		VMOVSS(scale, Mem{Base: r.row, Disp: groupScale + 4*b})
		sums[b] = r.bytes32(32*b, 32*b, inverse, mask)
	}
	s, high, x := four(sums), XMM(), XMM()
	VEXTRACTI128(Imm(1), s, high)
	VPADDD(high, s.AsX(), x)
	VPBROADCASTD(Mem{Base: r.t, Disp: roundOffset}, high)
	VPMULLD(high, x, x)
	VMOVDQU(x, Mem{Base: r.row, Disp: groupSums})
	r.end(128, groupRow)
}
