package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// half writes the tiles and streams of products of bf16 and the copying loops for them, and the streams of float32
// widening 16-bit numbers. An element of the copies is a pair of bf16 numbers, adjacent in the summed dimension.
func half() {
	for rows := 1; rows <= 8; rows = max(4, 2*rows) {
		for vecs := 1; vecs <= 3; vecs++ {
			dotTile(rows, vecs)
		}
	}
	dotStream(1, 4)
	dotStream(2, 4)
	dotStream(4, 4)
	for rows := 1; rows <= stripMost; rows++ {
		dotStrip(rows)
	}
	pairRows(8)
	pairRows(16)
	pairRows(32)
	pairRows(48)
	for _, s := range []set{
		{name: "avx512", element: "F32", size: 4, wide: true, streamDeep: 4}, {name: "avx2", element: "F32", size: 4, streamDeep: 2},
	} {
		for _, from := range []string{"Brain", "Half"} {
			s.from = from
			s.stream(1, 4)
			s.stream(2, 4)
			s.stream(4, s.streamDeep)
		}
	}
	for rows := 1; rows <= stripMost; rows++ {
		set{name: "avx2"}.brainStrip(rows)
	}
	for rows := 1; rows <= 2; rows++ {
		for cols := 1; cols <= 2; cols++ {
			amxTile(rows, cols, false)
		}
	}
	amxTile(2, 2, true)
	amxStream(1)
	amxStream(2)
	amxStream(4)
	vendor()
	pairOrders()
}

// code writes an instruction unknown to Go's assembler, described by text, as one line of words of 4, 2 and 1 bytes.
func code(text string, bytes ...byte) {
	var words []string
	for len(bytes) > 0 {
		n, word := 4, "LONG"
		switch {
		case len(bytes) == 1:
			n, word = 1, "BYTE"
		case len(bytes) < 4:
			n, word = 2, "WORD"
		}
		value := uint32(0)
		for i, b := range bytes[:n] {
			value |= uint32(b) << (8 * i)
		}
		words, bytes = append(words, fmt.Sprintf("%s $0x%0*x", word, 2*n, value)), bytes[n:]
	}
	Instruction(&ir.Instruction{Opcode: strings.Join(words, "; ") + " // " + text})
}

// zmm returns vector register i. For instructions written as bytes, avo cannot choose registers.
func zmm(i int) reg.VecPhysical {
	return []reg.VecPhysical{
		reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
		reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
	}[i]
}

// dot writes VDPBF16PS, adding to every float32 of sum the products of the pairs of x and y.
func dot(sum, x, y int) {
	not := func(n, bit int) byte { return byte(^n >> bit & 1) }
	code(fmt.Sprintf("VDPBF16PS Z%d, Z%d, Z%d", y, x, sum), 0x62,
		not(sum, 3)<<7|not(y, 4)<<6|not(y, 3)<<5|not(sum, 4)<<4|2, // map 0F38
		byte(^x&15)<<3|1<<2|2, // prefix F3
		2<<5|not(x, 4)<<3,     // 512 bits
		0x52,
		0xc0|byte(sum&7)<<3|byte(y&7))
}

// dotTile writes a function for C = 0 + A·B, or C += A·B, where C is rows by vecs vectors, all in registers. Each element
// is one chain of pairs of products, starting with 0.
func dotTile(rows, vecs int) {
	name := fmt.Sprintf("dotTile%dx%d", rows, vecs)
	onWork(name)
	Doc(fmt.Sprintf("%s multiplies %d rows and %d vectors of pairs of bf16.", name, rows, vecs))
	t := Load(Param("t"), GP64())
	deep, a, b, stride := field(t, workDeep), field(t, workA), field(t, workB), field(t, workBStride)
	c, cstride, add := field(t, workC), field(t, workCStride), field(t, workAdd)

	// C is needed at the end, so it is prefetched while computing the sums.
	row := GP64()
	MOVQ(c, row)
	for i := range rows {
		for j := range vecs {
			PREFETCHT0(Mem{Base: row, Disp: 64 * j})
		}
		if i < rows-1 {
			ADDQ(cstride, row)
		}
	}
	sum := func(i, j int) int { return i*vecs + j }
	x, y := 24, 28 // the registers of A's pairs, used in turn, and of B's
	for i := range rows * vecs {
		VPXORD(zmm(i), zmm(i), zmm(i))
	}
	ahead := GP64() // prefetches eight rows ahead
	MOVQ(stride, ahead)
	SHLQ(Imm(3), ahead)
	Label("loop")
	for j := range vecs {
		VMOVUPS(Mem{Base: b, Disp: 64 * j}, zmm(y+j))
	}
	for j := range vecs {
		PREFETCHT0(Mem{Base: b, Index: ahead, Scale: 1, Disp: 64 * j})
	}
	for i := range rows {
		VPBROADCASTD(Mem{Base: a, Disp: 4 * i}, zmm(x+i%4))
		for j := range vecs {
			dot(sum(i, j), x+i%4, y+j)
		}
	}
	ADDQ(stride, b)
	ADDQ(I32(4*rows), a)
	DECQ(deep)
	JNZ(LabelRef("loop"))

	storeSums(c, cstride, add, rows, vecs, 64, func(i, j int) reg.VecPhysical { return zmm(sum(i, j)) }, zmm(31))
}

// storeSums writes the end of a function: it adds sums, `vecs` vectors of `size` bytes for each row, to C, or to 0 if
// `add` is 0. zero is a free register.
func storeSums(c, cstride, add reg.GPVirtual, rows, vecs, size int, sum func(row, v int) reg.VecPhysical, zero reg.VecPhysical) {
	store := func(finish func(m Mem, v reg.VecPhysical)) {
		for r := range rows {
			for j := range vecs {
				m, v := Mem{Base: c, Disp: size * j}, sum(r, j)
				finish(m, v)
				VMOVUPS(v, m)
			}
			if r < rows-1 {
				ADDQ(cstride, c)
			}
		}
		VZEROUPPER()
		RET()
	}
	TESTQ(add, add)
	JZ(LabelRef("set"))
	store(func(m Mem, v reg.VecPhysical) { VADDPS(m, v, v) })
	Label("set")
	if size == 64 {
		VPXORD(zero, zero, zero)
	} else {
		VXORPS(zero, zero, zero)
	}
	store(func(m Mem, v reg.VecPhysical) { VADDPS(zero, v, v) })
}

// dotStream writes a function adding A·B to sums in memory, for few rows of A. It reads `deep` pairs of rows of B at a
// time, from end to end, 32 columns per round. The sums of these 32 columns are contiguous. Every row has two vectors of
// them: one of columns 0 to 3 of every 8, and one of the others.
func dotStream(rows, deep int) {
	name := fmt.Sprintf("dotStream%d", rows)
	onWork(name)
	Doc(fmt.Sprintf("%s adds the products of %d rows of pairs of bf16 to sums.", name, rows))
	t := Load(Param("t"), GP64())
	left, a, b, stride := field(t, workDeep), field(t, workA), field(t, workB), field(t, workBStride)
	const sum, x, even, odd, low, high = 0, 8, 24, 25, 26, 27
	for _, n := range []int{deep, 1} {
		label, next := fmt.Sprintf("by%d", n), fmt.Sprintf("below%d", n)
		Label(label)
		CMPQ(left, I32(n))
		JLT(LabelRef(next))
		from := make([]reg.GPVirtual, n)
		for p := range n {
			for r := range rows {
				VPBROADCASTD(Mem{Base: a, Disp: 4 * (p*rows + r)}, zmm(x+p*rows+r))
			}
			from[p] = GP64()
			MOVQ(b, from[p])
			LEAQ(Mem{Base: b, Index: stride, Scale: 2}, b)
		}
		sums, cols := field(t, workC), field(t, workCols)
		at := GP64()
		XORQ(at, at)
		loop := fmt.Sprintf("columns%d", n)
		Label(loop)
		for i := range 2 * rows {
			VMOVUPS(Mem{Base: sums, Disp: 64 * i}, zmm(sum+i))
		}
		for p := range n {
			next := GP64()
			LEAQ(Mem{Base: from[p], Index: stride, Scale: 1}, next)
			VMOVUPS(Mem{Base: from[p], Index: at, Scale: 1}, zmm(even))
			VMOVUPS(Mem{Base: next, Index: at, Scale: 1}, zmm(odd))
			VPUNPCKLWD(zmm(odd), zmm(even), zmm(low))
			VPUNPCKHWD(zmm(odd), zmm(even), zmm(high))
			for r := range rows {
				dot(sum+2*r, x+p*rows+r, low)
				dot(sum+2*r+1, x+p*rows+r, high)
			}
		}
		for i := range 2 * rows {
			VMOVUPS(zmm(sum+i), Mem{Base: sums, Disp: 64 * i})
		}
		ADDQ(I32(128*rows), sums)
		ADDQ(I32(64), at)
		CMPQ(at, cols)
		JLT(LabelRef(loop))
		ADDQ(I32(4*n*rows), a)
		SUBQ(I32(n), left)
		JMP(LabelRef(label))
		Label(next)
	}
	VZEROUPPER()
	RET()
}

// pairing writes the frame of a function interleaving the 16-bit numbers of two rows. before writes instructions run
// once, and body the instructions for a pair of rows.
func pairing(lanes int, before func(), body func(even, odd reg.Register, dst Mem)) {
	name := fmt.Sprintf("pairRows%d", lanes)
	TEXT(name, NOSPLIT, "func(n int, dst *byte, pitch uintptr, src *byte, stride uintptr)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s writes each two rows of src, n times, as one row of dst in which their elements alternate. Rows of src have %d elements of 16 bits and are stride bytes apart; rows of dst are pitch bytes apart.", name, lanes))
	n, dst, pitch, src, stride := Load(Param("n"), GP64()), Load(Param("dst"), GP64()), Load(Param("pitch"), GP64()), Load(Param("src"), GP64()), Load(Param("stride"), GP64())
	ahead := GP64()
	MOVQ(stride, ahead)
	SHLQ(Imm(4), ahead)
	before()
	Label("loop")
	next, far := GP64(), GP64()
	LEAQ(Mem{Base: src, Index: stride, Scale: 1}, next)
	LEAQ(Mem{Base: next, Index: ahead, Scale: 1}, far)
	for at := 0; at < 2*lanes; at += 64 {
		PREFETCHT0(Mem{Base: src, Index: ahead, Scale: 1, Disp: at})
		PREFETCHT0(Mem{Base: far, Disp: at})
	}
	body(src, next, Mem{Base: dst})
	LEAQ(Mem{Base: src, Index: stride, Scale: 2}, src)
	ADDQ(pitch, dst)
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// pairRows writes a function interleaving 32 numbers at a time, and then 16 or 8. It first interleaves two vectors within
// each quarter, and then permutes the quarters into order.
func pairRows(lanes int) {
	order := func(i int) Mem { return NewDataAddr(Symbol{Name: "pairOrder", Static: true}, 64*i) }
	var orders []reg.VecVirtual
	pairing(lanes, func() {
		for i := 0; i < 2 && lanes >= 32; i++ {
			orders = append(orders, ZMM())
			VMOVUPS(order(i), orders[i])
		}
	}, func(even, odd reg.Register, dst Mem) {
		at := 0
		for ; at+32 <= lanes; at += 32 {
			x, y, low, high := ZMM(), ZMM(), ZMM(), ZMM()
			VMOVUPS(Mem{Base: even, Disp: 2 * at}, x)
			VMOVUPS(Mem{Base: odd, Disp: 2 * at}, y)
			VPUNPCKLWD(y, x, low)
			VPUNPCKHWD(y, x, high)
			VMOVAPS(low, x)
			VPERMT2Q(high, orders[0], x)
			VPERMT2Q(high, orders[1], low)
			VMOVUPS(x, dst.Offset(4*at))
			VMOVUPS(low, dst.Offset(4*at+64))
		}
		if at == lanes {
			return
		}
		var x, y reg.VecVirtual = ZMM(), ZMM()
		if lanes == 8 {
			x, y = YMM(), YMM()
		}
		VPMOVZXWD(Mem{Base: even, Disp: 2 * at}, x)
		VPMOVZXWD(Mem{Base: odd, Disp: 2 * at}, y)
		VPSLLD(Imm(16), y, y)
		if lanes == 8 {
			VPOR(y, x, x)
		} else {
			VPORD(y, x, x)
		}
		VMOVUPS(x, dst.Offset(4*at))
	})
}

// pairOrders writes the indices permuting the quarters of two interleaved vectors into order. An index selects half a
// quarter.
func pairOrders() {
	GLOBL("pairOrder", RODATA|NOPTR)
	for i, x := range []uint64{0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15} {
		DATA(8*i, U64(x))
	}
}

// vendor writes a function that reads CPUID's leaf 0.
func vendor() {
	TEXT("vendor", NOSPLIT, "func() (b, d, c uint32)")
	Doc("vendor returns the twelve letters that name the processor's maker.")
	XORL(reg.EAX, reg.EAX)
	XORL(reg.ECX, reg.ECX)
	CPUID()
	Store(reg.EBX, Return("b"))
	Store(reg.EDX, Return("d"))
	Store(reg.ECX, Return("c"))
	VZEROUPPER()
	RET()
}
