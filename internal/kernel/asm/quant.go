package main

import (
	"encoding/binary"
	"fmt"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of type quantArgs in package blocks, which checks them, and of the parts of a
// rounded row, see quantize.go there.
const (
	quantN     = 0
	quantW     = 8
	quantX     = 40
	quantOut   = 72
	quantBook  = 104
	quantFetch = 112

	superRow, superSums, superScale           = 320, 256, 288
	groupRow, groupScale, groupSums, groupLen = 192, 128, 144, 4
)

// Weights are prefetched to the second-level cache first, and quantNear bytes later to the first one. A
// core of AMD's fourth generation has 24 lines in flight to its first-level cache, which limits it to
// 16 GB/s from memory: a token of OLMoE in q4_k takes 185 ms that way, 160 ms through the second-level
// cache, and 445 ms without prefetching.
const quantNear = 8 << 10

// quantPage is the distance ahead of the lines at which the address of a page of memory is looked up,
// by prefetching its first line to the first-level cache. A core of AMD's fourth generation prefetches
// nothing to its second-level cache from a page with an unknown address: weights in pages of 4 KiB,
// such as a file's, arrive at 18 to 20 GB/s without this, at 24 with 2 KiB, and at 26 with 8 to 20 KiB,
// as fast as in pages of 2 MiB.
const quantPage = 10 << 10

// shape is the number of rows of weights, w, that a function multiplies with x rows.
type shape struct{ w, x int }

// quant writes the products of weights in blocks with rows of int8: four rows of weights with one row,
// four with two if there are enough registers, and one row of weights with four rows. The four products
// with one row, or of one row of weights, are the lanes of a vector. Strips and panels are for more
// rows.
func quant() {
	var table bytes64
	rows, pairs, columns := shape{4, 1}, shape{4, 2}, shape{1, 4}
	for _, q := range []quantSet{{set{name: "avx512", wide: true}, &table}, {set{name: "avx2"}, &table}} {
		shapes := []shape{rows, columns}
		if q.wide {
			shapes = []shape{rows, pairs, columns}
		}
		for _, s := range shapes {
			if q.wide && s != columns {
				q.q4kRows(s)
			} else {
				q.super("Q4K", 144, s, q.q4k)
			}
			q.super("Q6K", 210, s, q.q6k)
			q.super("Q2K", 84, s, q.q2k)
			if !q.wide {
				q.iq2(s)
			}
			q.group("Q8", 34, s)
			q.group("MX", 17, s)
			if s != columns {
				q.group("Group", groupRow/groupLen, s)
			}
		}
	}
	wide := quantSet{set{name: "avx512", wide: true}, &table}
	wide.panels()
	wide.packs()
	wide.tiles()
	wide.tilePacks()
	narrow := quantSet{set{name: "avx2"}, &table}
	narrow.narrowPanels()
	narrow.narrowPacks()
	narrow.unpack()
	narrow.quantize()
	table.write()
	var signs, scales []byte
	for i := range 128 {
		for j := range 8 {
			signs = append(signs, signByte(i, j))
		}
	}
	for e := range 256 {
		bits := uint32(0x00200000) << e
		if e >= 2 {
			bits = uint32(e-1) << 23
		}
		scales = binary.LittleEndian.AppendUint32(scales, bits)
	}
	data("quantSigns", signs)
	data("quantScales", scales)
}

// data writes a table, in lines of 64 bytes.
func data(name string, x []byte) {
	GLOBL(name, RODATA|NOPTR)
	for at := 0; at < len(x); at += 64 {
		DATA(at, String(x[at:min(at+64, len(x))]))
	}
}

// signByte returns -1 if bit j of i is set, and 1 otherwise. i has 7 bits; the eighth makes the number
// of set bits even.
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

// bytes64 is a table of vectors of 64 bytes. The linker aligns it to 32 bytes, so half of the time
// every load of a vector would touch two cache lines, which makes products with mxfp4 and q6_k a third
// slower. So the table exists twice, and one of the two starts at a multiple of 64. Functions in
// AVX-512 start by selecting it.
type bytes64 struct {
	vectors [][64]uint8
	base    reg.Register // points to the aligned table; nil to use the first
}

// room64 is the capacity of a table in vectors.
const room64 = 128

// align writes the instructions selecting the aligned table. A function starts with them.
func (t *bytes64) align() {
	base, odd := GP64(), GP64()
	LEAQ(t.at(0), base)
	MOVQ(base, odd)
	ANDQ(Imm(32), odd)
	IMUL3Q(U32(room64*64/32+1), odd, odd)
	ADDQ(odd, base)
	t.base = base
}

func (t *bytes64) at(disp int) Mem {
	return NewDataAddr(Symbol{Name: "quantConstants", Static: true}, disp)
}

func (t *bytes64) vector(f func(i int) uint8) Mem {
	var v [64]uint8
	for i := range v {
		v[i] = f(i)
	}
	i := slices.Index(t.vectors, v)
	if i < 0 {
		i = len(t.vectors)
		t.vectors = append(t.vectors, v)
	}
	if t.base != nil {
		return Mem{Base: t.base, Disp: 64 * i}
	}
	return t.at(64 * i)
}

// same returns a vector of 64 equal bytes, words one of 32 numbers of 16 bits, longs one of
// 16 numbers of 32 bits, and quads one of 8 numbers of 64 bits.
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

func (t *bytes64) write() {
	if len(t.vectors) > room64 {
		panic("the second copy of the constants begins within the first")
	}
	GLOBL("quantConstants", RODATA|NOPTR)
	for _, from := range []int{0, room64*64 + 32} {
		for at, v := range t.vectors {
			DATA(from+64*at, String(v[:]))
		}
	}
}

// frame holds a function's registers: pointers to rows of weights, to rows, and to the prefetched
// memory, and the products. Each register of acc has four products: acc[i] the products with row i, or
// acc[0] all products.
type frame struct {
	t, n, next reg.Register
	w, x       []reg.Register
	acc        []reg.VecVirtual
	columns    bool
	table      *bytes64
}

// begin writes the start of a function, the instructions of `before`, and the start of the loop.
func (q quantSet) begin(kind string, size int, s shape, before ...func()) frame {
	way := map[shape]string{{4, 1}: "Rows", {4, 2}: "Pairs", {1, 4}: "Columns"}[s]
	words := map[int]string{1: "one", 2: "two", 4: "four"}
	name := fmt.Sprintf("%s%s%s", q.name, kind, way)
	TEXT(name, NOSPLIT, "func(t *byte)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s adds the products of rows of weights with rows of x, %s with %s.", name, words[s.w], words[s.x]))
	f := frame{t: Load(Param("t"), GP64()), columns: s.w == 1, table: q.table}
	f.n, f.next = field(f.t, quantN), field(f.t, quantFetch)
	for l := range s.w {
		if kind != "IQ2" || s.w == 1 { // IQ2 takes four rows of weights one at a time
			f.w = append(f.w, field(f.t, quantW+8*l))
		}
	}
	for l := range s.x {
		f.x = append(f.x, field(f.t, quantX+8*l))
	}
	for i := range s.w * s.x / 4 {
		acc := XMM()
		VMOVUPS(Mem{Base: f.t, Disp: quantOut + 16*i}, acc)
		f.acc = append(f.acc, acc)
	}
	if q.wide {
		q.table.align()
	}
	for _, do := range before {
		do()
	}
	// Rows of weights are contiguous, and cache lines are prefetched in that order.
	Label("loop")
	if kind == "Group" { // the weights of groups are in the first-level cache
		return f
	}
	for at := 0; at < s.w*size; at += 64 {
		PREFETCHT1(Mem{Base: f.next, Disp: at})
		PREFETCHT0(Mem{Base: f.next, Disp: at - quantNear})
	}
	fetchPage(f.next)
	ADDQ(I32(s.w*size), f.next)
	return f
}

// fetchPage makes the processor look up the address of the page quantPage after the prefetched line.
func fetchPage(next reg.Register) {
	page := GP64()
	LEAQ(Mem{Base: next, Disp: quantPage}, page)
	ANDQ(I32(-4096), page)
	PREFETCHT0(Mem{Base: page})
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
	for i, acc := range f.acc {
		VMOVUPS(acc, Mem{Base: f.t, Disp: quantOut + 16*i})
	}
	VZEROUPPER()
	RET()
	f.table.base = nil
}

// W returns the pointer to lane l's weights, X the pointer to the row of lane l in products i.
func (f frame) W(l int) reg.Register { return f.w[min(l, len(f.w)-1)] }

func (f frame) X(i, l int) reg.Register {
	if f.columns {
		return f.x[l]
	}
	return f.x[i]
}

// sumLanes returns a vector having, in each 128 bits, the sums of the same 128 bits of the four vectors
// v of int32.
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

// fold returns the sum of the 128-bit parts of a vector.
func fold(v reg.VecVirtual, wide bool) reg.VecVirtual {
	y := v.AsY()
	if wide {
		high := YMM()
		VEXTRACTI64X4(Imm(1), v, high)
		VPADDD(high, y, y)
	}
	high := XMM()
	if wide { // this instruction can use all 32 registers
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
	x := q.zero128()
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
	return q.split(x)
}

// split returns the even and the odd elements of 8 f16 as f32.
func (q quantSet) split(x reg.VecVirtual) (first, second reg.VecVirtual) {
	y, high := YMM(), XMM()
	VCVTPH2PS(x, y)
	if q.wide { // this instruction can use all 32 registers
		VEXTRACTF32X4(Imm(1), y, high)
	} else {
		VEXTRACTF128(Imm(1), y, high)
	}
	first, second = XMM(), XMM()
	VSHUFPS(Imm(0x88), high, y.AsX(), first)
	VSHUFPS(Imm(0xdd), high, y.AsX(), second)
	return first, second
}

// zero128 returns 128 bits of zeros.
func (q quantSet) zero128() reg.VecVirtual {
	x := XMM()
	if q.wide { // this instruction can use all 32 registers
		VPXORD(x, x, x)
	} else {
		VPXOR(x, x, x)
	}
	return x
}

// floats returns the f32 at disp of every lane's row, in products i.
func (q quantSet) floats(f frame, i, disp int) reg.VecVirtual {
	x := XMM()
	if !f.columns {
		VBROADCASTSS(Mem{Base: f.x[i], Disp: disp}, x)
		return x
	}
	VMOVSS(Mem{Base: f.x[0], Disp: disp}, x)
	for l := 1; l < 4; l++ {
		VINSERTPS(Imm(uint64(l<<4)), Mem{Base: f.x[l], Disp: disp}, x, x)
	}
	return x
}

// scaled returns (d·dx)·s, with s of int32.
func scaled(d, dx, s reg.VecVirtual) reg.VecVirtual {
	y, n := XMM(), XMM()
	VMULPS(dx, d, y)
	VCVTDQ2PS(s, n)
	VMULPS(n, y, y)
	return y
}
