package main

import (
	"fmt"
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// copyRows writes a function copying rows of this number of bytes, stride bytes apart, to contiguous memory.
func copyRows(bytes int) {
	name := fmt.Sprintf("copy%d", bytes)
	TEXT(name, NOSPLIT, "func(n int, dst, src *byte, stride uintptr)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s copies n rows of %d bytes, stride bytes apart in src, with nothing between them in dst.", name, bytes))
	n, dst, src, stride := Load(Param("n"), GP64()), Load(Param("dst"), GP64()), Load(Param("src"), GP64()), Load(Param("stride"), GP64())
	ahead := GP64()
	MOVQ(stride, ahead)
	SHLQ(Imm(4), ahead)
	Label("loop")
	for at := 0; at < bytes; at += 64 {
		PREFETCHT0(Mem{Base: src, Index: ahead, Scale: 1, Disp: at})
	}
	for at := 0; at < bytes; at += 32 {
		var v reg.VecVirtual = YMM()
		if bytes == 16 {
			v = XMM()
		}
		VMOVUPS(Mem{Base: src, Disp: at}, v)
		VMOVUPS(v, Mem{Base: dst, Disp: at})
	}
	ADDQ(stride, src)
	ADDQ(I32(bytes), dst)
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// transposition writes the frame of a function reading `lanes` rows, stride bytes apart in src, and writing them as
// columns of dst, with a row stride of pitch bytes. One round of the loop processes `deep` elements of each row.
func transposition(name string, lanes, deep, size int, round func(row func(i, at int) Mem, col func(p int) Mem)) {
	TEXT(name, NOSPLIT, "func(n int, dst *byte, pitch uintptr, src *byte, stride uintptr)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s writes columns of src, n of %d elements, as rows of dst. Rows are stride bytes apart in src and pitch bytes in dst; n is a multiple of %d.", name, lanes, deep))
	n, dst, pitch := Load(Param("n"), GP64()), Load(Param("dst"), GP64()), Load(Param("pitch"), GP64())
	src, stride := Load(Param("src"), GP64()), Load(Param("stride"), GP64())
	stride3, pitch3 := GP64(), GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	LEAQ(Mem{Base: pitch, Index: pitch, Scale: 2}, pitch3)
	// There is a register for every four rows: an address can add 0, 1 or 2 strides to it, or three strides, which are in
	// a register too.
	every4 := func(base, step reg.Register, n int) []reg.Register {
		r := []reg.Register{base}
		for len(r)*4 < n {
			next := GP64()
			LEAQ(Mem{Base: r[len(r)-1], Index: step, Scale: 4}, next)
			r = append(r, next)
		}
		return r
	}
	srcs, dsts := every4(src, stride, lanes), every4(dst, pitch, deep)
	at := func(bases []reg.Register, step, step3 reg.Register, i, disp int) Mem {
		m := Mem{Base: bases[i/4], Disp: disp}
		switch i % 4 {
		case 3:
			m.Index, m.Scale = step3, 1
		case 1, 2:
			m.Index, m.Scale = step, uint8(i%4)
		}
		return m
	}
	// If a matrix is copied from memory, the next call reads the rows following these. 16 rows of 4 KiB share lines of
	// the first-level cache, so they are prefetched to the second. That needs the address of a page being known, so a
	// line of each row is prefetched to the first.
	ahead := GP64()
	fetch := func(prefetch func(Op)) {
		LEAQ(Mem{Base: srcs[len(srcs)-1], Index: stride, Scale: 4}, ahead)
		for i := range lanes {
			if prefetch(Mem{Base: ahead}); i+1 < lanes {
				ADDQ(stride, ahead)
			}
		}
	}
	fetch(PREFETCHT0)
	Label("loop")
	fetch(PREFETCHT1)
	round(func(i, disp int) Mem { return at(srcs, stride, stride3, i, disp) },
		func(p int) Mem { return at(dsts, pitch, pitch3, p, 0) })
	for _, r := range srcs {
		ADDQ(I32(deep*size), r)
	}
	step := GP64()
	MOVQ(pitch, step)
	SHLQ(Imm(uint64(bits.TrailingZeros(uint(deep)))), step)
	for _, r := range dsts {
		ADDQ(step, r)
	}
	SUBQ(I32(deep), n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// transpose16F32 interleaves neighbouring rows, then pairs of rows, and then combines quarters of vectors. Four quarters
// are a column.
func transpose16F32() {
	transposition("transpose16F32", 16, 16, 4, func(row func(i, at int) Mem, col func(p int) Mem) {
		r := make([]reg.VecVirtual, 16)
		for i := range r {
			r[i] = ZMM()
			VMOVUPS(row(i, 0), r[i])
		}
		for i := 0; i < 16; i += 2 {
			hi := ZMM()
			VUNPCKHPS(r[i+1], r[i], hi)
			VUNPCKLPS(r[i+1], r[i], r[i])
			r[i+1] = hi
		}
		for i := 0; i < 16; i += 4 {
			a, b, c, d := r[i], r[i+1], r[i+2], r[i+3]
			r[i], r[i+1], r[i+2], r[i+3] = ZMM(), ZMM(), ZMM(), ZMM()
			VUNPCKLPD(c, a, r[i])
			VUNPCKHPD(c, a, r[i+1])
			VUNPCKLPD(d, b, r[i+2])
			VUNPCKHPD(d, b, r[i+3]) // quarter q of r[i+j] is column 4q+j of rows i to i+3
		}
		for c := range 4 {
			even, odd, even2 := ZMM(), ZMM(), ZMM()
			VSHUFF32X4(Imm(0x88), r[4+c], r[c], even)
			VSHUFF32X4(Imm(0xdd), r[4+c], r[c], odd)
			VSHUFF32X4(Imm(0x88), r[12+c], r[8+c], even2)
			VSHUFF32X4(Imm(0xdd), r[12+c], r[8+c], r[c])
			for p, pair := range [][2]reg.VecVirtual{{even, even2}, {odd, r[c]}} {
				y := ZMM()
				VSHUFF32X4(Imm(0x88), pair[1], pair[0], y)
				VMOVUPS(y, col(4*p+c))
				y = ZMM()
				VSHUFF32X4(Imm(0xdd), pair[1], pair[0], y)
				VMOVUPS(y, col(8+4*p+c))
			}
		}
	})
}

// transpose8F32 loads row i and row i+4 into the halves of one vector, so that no later step crosses the halves.
func transpose8F32() {
	transposition("transpose8F32", 8, 8, 4, func(row func(i, at int) Mem, col func(p int) Mem) {
		for half := range 2 {
			var r, t, u [4]reg.VecVirtual
			for i := range r {
				r[i], t[i], u[i] = YMM(), YMM(), YMM()
				VMOVUPS(row(i, 16*half), r[i].AsX())
				VINSERTF128(Imm(1), row(i+4, 16*half), r[i], r[i])
			}
			VUNPCKLPS(r[1], r[0], t[0])
			VUNPCKHPS(r[1], r[0], t[1])
			VUNPCKLPS(r[3], r[2], t[2])
			VUNPCKHPS(r[3], r[2], t[3])
			VUNPCKLPD(t[2], t[0], u[0])
			VUNPCKHPD(t[2], t[0], u[1])
			VUNPCKLPD(t[3], t[1], u[2])
			VUNPCKHPD(t[3], t[1], u[3])
			for p := range u {
				VMOVUPS(u[p], col(4*half+p))
			}
		}
	})
}

func transpose4F32() {
	transposition("transpose4F32", 4, 4, 4, func(row func(i, at int) Mem, col func(p int) Mem) {
		var r, t, u [4]reg.VecVirtual
		for i := range r {
			r[i], t[i], u[i] = XMM(), XMM(), XMM()
			VMOVUPS(row(i, 0), r[i])
		}
		VUNPCKLPS(r[1], r[0], t[0])
		VUNPCKHPS(r[1], r[0], t[1])
		VUNPCKLPS(r[3], r[2], t[2])
		VUNPCKHPS(r[3], r[2], t[3])
		VUNPCKLPD(t[2], t[0], u[0])
		VUNPCKHPD(t[2], t[0], u[1])
		VUNPCKLPD(t[3], t[1], u[2])
		VUNPCKHPD(t[3], t[1], u[3])
		for p := range u {
			VMOVUPS(u[p], col(p))
		}
	})
}

func transpose4F64() {
	transposition("transpose4F64", 4, 4, 8, func(row func(i, at int) Mem, col func(p int) Mem) {
		for half := range 2 {
			var r [2]reg.VecVirtual
			for i := range r { // rows i and i+2
				r[i] = YMM()
				VMOVUPS(row(i, 16*half), r[i].AsX())
				VINSERTF128(Imm(1), row(i+2, 16*half), r[i], r[i])
			}
			lo, hi := YMM(), YMM()
			VUNPCKLPD(r[1], r[0], lo)
			VUNPCKHPD(r[1], r[0], hi)
			VMOVUPS(lo, col(2*half))
			VMOVUPS(hi, col(2*half+1))
		}
	})
}
