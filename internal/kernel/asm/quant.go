package main

import (
	"encoding/binary"
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of type quantArgs in the kernel package, which checks them,
// and of a rounded row, see quant.go there.
const (
	quantN     = 0
	quantW     = 8
	quantX     = 40
	quantOut   = 72
	quantBook  = 88
	quantAhead = 96

	superRow, superSums, superScale           = 320, 256, 288
	groupRow, groupScale, groupSums, groupLen = 192, 128, 144, 4
)

// quant is products of weights in blocks with rows of int8: of four rows of weights
// with one row, and of one row of weights with four. The four products are lanes.
func quant() {
	var table bytes64
	for _, q := range []quantSet{{set{name: "avx512", wide: true}, &table}, {set{name: "avx2"}, &table}} {
		for _, columns := range []bool{false, true} {
			if q.wide && !columns {
				q.q4kRows()
			} else {
				q.super("Q4K", 144, columns, q.q4k)
			}
			q.super("Q6K", 210, columns, q.q6k)
			q.super("Q2K", 84, columns, q.q2k)
			if !q.wide {
				q.super("IQ2", 66, columns, q.iq2)
			}
			q.group("Q8", 34, columns)
			q.group("MX", 17, columns)
		}
	}
	quantSet{set{name: "avx2"}, &table}.quantize()
	table.write("quantConstants")
	GLOBL("quantSigns", RODATA|NOPTR)
	for i := range 128 {
		v := uint64(0)
		for j := range 8 {
			v |= uint64(signByte(i, j)) << (8 * j)
		}
		DATA(8*i, U64(v))
	}
	GLOBL("quantScales", RODATA|NOPTR)
	for e := range 256 {
		bits := uint32(0x00200000) << e
		if e >= 2 {
			bits = uint32(e-1) << 23
		}
		DATA(4*e, U32(bits))
	}
}

// signByte is 1, or -1 where bit j of the 7 bits i is set; an eighth bit makes their
// number even.
func signByte(i, j int) uint8 {
	odd := 0
	for b := range 7 {
		odd ^= i >> b & 1
	}
	if (i|odd<<7)>>j&1 != 0 {
		return 0xff
	}
	return 1
}

type quantSet struct {
	set
	table *bytes64
}

// bytes64 are vectors of 64 bytes.
type bytes64 [][64]uint8

func (t *bytes64) vector(f func(i int) uint8) Mem {
	var v [64]uint8
	for i := range v {
		v[i] = f(i)
	}
	for i, w := range *t {
		if w == v {
			return NewDataAddr(Symbol{Name: "quantConstants", Static: true}, 64*i)
		}
	}
	*t = append(*t, v)
	return NewDataAddr(Symbol{Name: "quantConstants", Static: true}, 64*(len(*t)-1))
}

// same is 64 times a byte, words 32 numbers of 16 bits, longs 16 of 32 bits.
func (t *bytes64) same(b uint8) Mem { return t.vector(func(int) uint8 { return b }) }

func (t *bytes64) words(f func(i int) int) Mem {
	return t.vector(func(i int) uint8 { return uint8(f(i/2) >> (i % 2 * 8)) })
}

func (t *bytes64) longs(f func(i int) int) Mem {
	return t.vector(func(i int) uint8 { return uint8(f(i/4) >> (i % 4 * 8)) })
}

func (t *bytes64) quads(f func(i int) int) Mem {
	return t.vector(func(i int) uint8 { return uint8(f(i/8) >> (i % 8 * 8)) })
}

func (t bytes64) write(name string) {
	GLOBL(name, RODATA|NOPTR)
	for at, v := range t {
		for i := 0; i < len(v); i += 8 {
			DATA(64*at+i, U64(binary.LittleEndian.Uint64(v[i:])))
		}
	}
}

// frame is a function's registers. w and x have one register or four.
type frame struct {
	t, n, ahead reg.Register
	w, x        []reg.Register
	acc         reg.VecVirtual
	columns     bool
}

// begin begins a function and, after what is done before it, its loop.
func (q quantSet) begin(kind string, size int, columns bool, before ...func()) frame {
	way, doc := "Rows", "of four rows of weights with one"
	nw, nx := 4, 1
	if columns {
		way, doc, nw, nx = "Columns", "of one row of weights with four", 1, 4
	}
	name := fmt.Sprintf("%s%s%s", q.name, kind, way)
	TEXT(name, NOSPLIT, "func(t *byte)")
	Pragma("noescape")
	Doc(name + " adds the products " + doc + ".")
	f := frame{t: Load(Param("t"), GP64()), columns: columns}
	f.n, f.ahead = field(f.t, quantN), field(f.t, quantAhead)
	for l := range nw {
		f.w = append(f.w, field(f.t, quantW+8*l))
	}
	for l := range nx {
		f.x = append(f.x, field(f.t, quantX+8*l))
	}
	f.acc = XMM()
	VMOVUPS(Mem{Base: f.t, Disp: quantOut}, f.acc)
	for _, do := range before {
		do()
	}
	Label("loop")
	for _, w := range f.w {
		for at := 0; at < size; at += 64 {
			PREFETCHT0(Mem{Base: w, Index: f.ahead, Scale: 1, Disp: at})
		}
	}
	return f
}

func (f frame) end(size, row int) {
	for _, w := range f.w {
		ADDQ(I32(size), w)
	}
	for _, x := range f.x {
		ADDQ(I32(row), x)
	}
	DECQ(f.n)
	JNZ(LabelRef("loop"))
	VMOVUPS(f.acc, Mem{Base: f.t, Disp: quantOut})
	VZEROUPPER()
	RET()
}

func (f frame) W(l int) reg.Register { return f.w[min(l, len(f.w)-1)] }
func (f frame) X(l int) reg.Register { return f.x[min(l, len(f.x)-1)] }

// sumLanes returns the sums of four vectors of int32 in each 128 bits of one.
func (q quantSet) sumLanes(v [4]reg.VecVirtual, like func() reg.VecVirtual) reg.VecVirtual {
	pair := func(a, b reg.VecVirtual) reg.VecVirtual {
		lo, hi := like(), like()
		VPUNPCKLDQ(b, a, lo)
		VPUNPCKHDQ(b, a, hi)
		VPADDD(hi, lo, lo)
		return lo
	}
	ab, cd := pair(v[0], v[1]), pair(v[2], v[3])
	lo, hi := like(), like()
	VPUNPCKLQDQ(cd, ab, lo)
	VPUNPCKHQDQ(cd, ab, hi)
	VPADDD(hi, lo, lo)
	return lo
}

// fold adds the 128 bits of a vector.
func fold(v reg.VecVirtual, wide bool) reg.VecVirtual {
	y := v.AsY()
	if wide {
		high := YMM()
		VEXTRACTI64X4(Imm(1), v, high)
		VPADDD(high, y, y)
	}
	high := XMM()
	if wide { // reaches all registers
		VEXTRACTI32X4(Imm(1), y, high)
	} else {
		VEXTRACTI128(Imm(1), y, high)
	}
	x := XMM()
	VPADDD(high, v.AsX(), x)
	return x
}

// halves returns the f16 at disp of every lane's weights as f32.
func (q quantSet) halves(f frame, disp int) reg.VecVirtual {
	x := XMM()
	VPXOR(x, x, x)
	for l := range 4 {
		VPINSRW(Imm(uint64(l)), Mem{Base: f.W(l), Disp: disp}, x, x)
	}
	VCVTPH2PS(x, x)
	return x
}

// halfPairs returns two adjacent f16 at disp of every lane's weights.
func (q quantSet) halfPairs(f frame, disp int) (first, second reg.VecVirtual) {
	x := XMM()
	if f.columns {
		VPBROADCASTD(Mem{Base: f.W(0), Disp: disp}, x)
	} else {
		VMOVD(Mem{Base: f.W(0), Disp: disp}, x)
		for l := 1; l < 4; l++ {
			VPINSRD(Imm(uint64(l)), Mem{Base: f.W(l), Disp: disp}, x, x)
		}
	}
	return split(x)
}

// split returns the even and the odd ones of 8 f16.
func split(x reg.VecVirtual) (first, second reg.VecVirtual) {
	y, high := YMM(), XMM()
	VCVTPH2PS(x, y)
	VEXTRACTF128(Imm(1), y, high)
	first, second = XMM(), XMM()
	VSHUFPS(Imm(0x88), high, y.AsX(), first)
	VSHUFPS(Imm(0xdd), high, y.AsX(), second)
	return first, second
}

// floats returns the f32 at disp of every lane's row.
func (q quantSet) floats(f frame, disp int) reg.VecVirtual {
	x := XMM()
	if !f.columns {
		VBROADCASTSS(Mem{Base: f.X(0), Disp: disp}, x)
		return x
	}
	VMOVSS(Mem{Base: f.X(0), Disp: disp}, x)
	for l := 1; l < 4; l++ {
		VINSERTPS(Imm(uint64(l<<4)), Mem{Base: f.X(l), Disp: disp}, x, x)
	}
	return x
}

// scaled is (d·dx)·s, with s of int32.
func scaled(d, dx, s reg.VecVirtual) reg.VecVirtual {
	y, n := XMM(), XMM()
	VMULPS(dx, d, y)
	VCVTDQ2PS(s, n)
	VMULPS(n, y, y)
	return y
}
