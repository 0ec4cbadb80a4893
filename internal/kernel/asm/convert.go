package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// convert writes the conversions between float32 and the 16-bit and 8-bit formats. They are in
// package internal/half, because package array needs them.
func convert() {
	var table constants
	for _, s := range []set{{name: "avx512", size: 4, wide: true, table: &table}, {name: "avx2", size: 4, table: &table}} {
		s.conversion("WidenBrain", "widens n bf16 numbers", 2, 4, func(src, dst Mem) {
			VMOVUPS(s.upper(s.words(src)), dst)
		})
		s.conversion("WidenHalf", "widens n f16 numbers", 2, 4, func(src, dst Mem) {
			// The instruction would make NaNs quiet, but NaNs keep their bits.
			w, y := s.words(src), s.vector()
			VCVTPH2PS(src, y)
			x := s.upper(s.and(s.table.bits(0x8000), w))
			low := s.and(s.table.bits(0x7fff), w)
			VPSLLD(Imm(13), low, low)
			nan := s.or(s.table.bits(0x7f800000), s.or(low, x))
			VMOVUPS(s.orNaN(y, nan), dst)
		})
		s.conversion("NarrowBrain", "rounds n numbers to bf16", 4, 2, func(src, dst Mem) {
			var y []reg.VecVirtual
			for at := 0; at < 64; at += s.bytes() {
				x, low := s.load(src.Offset(at)), s.vector()
				VPSRLD(Imm(16), x, low)
				nan := s.or(s.table.bits(0x40), low)
				z := s.and(s.table.bits(1), low)
				VPADDD(s.table.bits(0x7fff), z, z)
				VPADDD(x, z, z)
				VPSRLD(Imm(16), z, z)
				y = append(y, s.blendNaN(x, z, nan))
			}
			if s.wide {
				VPMOVDW(y[0], dst)
				return
			}
			VPACKUSDW(y[1], y[0], y[0])
			VPERMQ(Imm(0xd8), y[0], y[0])
			VMOVUPS(y[0], dst)
		})
		s.conversion("NarrowHalf", "rounds n numbers to f16", 4, 2, func(src, dst Mem) {
			for at := 0; at < 64; at += s.bytes() {
				VCVTPS2PH(Imm(0), s.load(src.Offset(at)), dst.Offset(at/2))
			}
		})
		s.conversion("WidenE4M3", "widens n f8_e4m3 numbers", 1, 4, func(src, dst Mem) {
			// The code's bits form an f16 equal to 2^-8 of the number.
			h := s.words8(src)
			sign, y := s.half(), s.vector()
			VPSLLW(Imm(8), h, sign)
			VPSLLW(Imm(7), h, h)
			VPAND(s.table.bits(0x3f803f80), h, h)
			VPAND(s.table.bits(0x80008000), sign, sign)
			VPOR(sign, h, h)
			VCVTPH2PS(h, y)
			VMULPS(s.table.bits(0x43800000), y, y)
			// The code of the NaN has become 480.
			size := s.and(s.table.bits(0x7fffffff), y)
			nan := s.or(s.table.bits(0x7fc00000), s.and(s.table.bits(0x80000000), y))
			VMOVUPS(s.below(0x43e00001, size, y, nan), dst)
		})
		s.conversion("WidenE5M2", "widens n f8_e5m2 numbers", 1, 4, func(src, dst Mem) {
			// The code's bits are the upper bits of an f16 of the same value.
			h, y := s.words8(src), s.vector()
			VPSLLW(Imm(8), h, h)
			VCVTPH2PS(h, y)
			VMOVUPS(y, dst)
		})
		s.widenQ8()
		s.narrowF8("NarrowE4M3", "rounds n numbers to f8_e4m3", 3, 7, 0x43e00000, 0x7f)
		s.narrowF8("NarrowE5M2", "rounds n numbers to f8_e5m2", 2, 15, 0x47600000, 0x7e)
	}
	cpuid1()
	table.write()
}

// narrowF8 writes the conversion to an 8-bit format with the given bits of fraction, bias of the
// exponent, largest number as bits of float32, and code of its NaN. It computes the codes for both
// normal and subnormal numbers as package array does, and selects one of the two.
func (s set) narrowF8(name, doc string, fraction, bias, largest, nan uint32) {
	shift := 23 - fraction
	least, one := (128-bias)<<23, (128-bias+shift)<<23
	s.conversion(name, doc, 4, 1, func(src, dst Mem) {
		var y []reg.VecVirtual
		for at := 0; at < 64; at += s.bytes() {
			x, sign, b, z, low := s.load(src.Offset(at)), s.vector(), s.vector(), s.vector(), s.vector()
			VPSRLD(Imm(24), x, sign)
			sign = s.and(s.table.bits(0x80), sign)
			b = s.and(s.table.bits(0x7fffffff), x)
			VPMINUD(s.table.bits(largest), b, b)
			VPSRLD(Imm(uint64(shift)), b, z)
			z = s.and(s.table.bits(1), z)
			VPADDD(s.table.bits(1<<(shift-1)-1-(127-bias)<<23), z, z)
			VPADDD(b, z, z)
			VPSRLD(Imm(uint64(shift)), z, z)
			VADDPS(s.table.bits(one), b, low)
			VPSUBD(s.table.bits(one), low, low)
			z = s.or(sign, s.below(least, b, low, z))
			y = append(y, s.blendNaN(x, z, s.or(s.table.bits(nan), sign)))
		}
		if s.wide {
			VPMOVDB(y[0], dst)
			return
		}
		VPACKUSDW(y[1], y[0], y[0])
		VPERMQ(Imm(0xd8), y[0], y[0])
		high := XMM()
		VEXTRACTI128(Imm(1), y[0], high)
		VPACKUSWB(high, y[0].AsX(), high)
		VMOVDQU(high, dst)
	})
}

// widenQ8 writes the conversion from q8_0: blocks of an f16 scale and 32 signed bytes.
func (s set) widenQ8() {
	const elements, size = 32, 34
	name := s.name + "WidenQ8"
	s.rowLoop(name, "widens n q8_0 numbers of each row, n a positive multiple of 32", elements, size, 4*elements, func(src, dst Mem) {
		word, scale := s.half(), s.vector()
		VPBROADCASTW(src, word)
		VCVTPH2PS(word, scale)
		step := s.bytes() / 4
		for i := 0; i < elements; i += step {
			y := s.vector()
			VPMOVSXBD(src.Offset(2+i), y)
			VCVTDQ2PS(y, y)
			VMULPS(scale, y, y)
			VMOVUPS(y, dst.Offset(4*i))
		}
	})
}

// below returns yes where the integer b, which is not negative, is less than x, and no elsewhere.
func (s set) below(x uint32, b, yes, no reg.VecVirtual) reg.VecVirtual {
	z := s.vector()
	if s.wide {
		k := K()
		VPCMPD(Imm(1), s.table.bits(x), b, k)
		VBLENDMPS(yes, no, k, z)
		return z
	}
	mask := s.vector()
	VMOVUPS(s.table.bits(x), mask)
	VPCMPGTD(b, mask, mask)
	VBLENDVPS(mask, yes, no, z)
	return z
}

// conversion writes a loop converting 16 numbers at a time, from `from` bytes each to `to` bytes.
// body converts a vector when widening, and 16 numbers when narrowing.
func (s set) conversion(name, doc string, from, to int, body func(src, dst Mem)) {
	step := 16
	if to > from {
		step = s.bytes() / to
	}
	s.rowLoop(s.name+name, doc+" of each row, n a positive multiple of 16", 16, 16*from, 16*to, func(src, dst Mem) {
		for i := 0; i < 16; i += step {
			body(src.Offset(i*from), dst.Offset(i*to))
		}
	})
}

// rowLoop writes a loop converting `elements` numbers of a row at a time, from `from` bytes to `to`
// bytes.
func (s set) rowLoop(name, doc string, elements, from, to int, body func(src, dst Mem)) {
	TEXT(name, NOSPLIT, "func(rows, n int, dst *byte, pitch uintptr, src *byte, stride uintptr)")
	Pragma("noescape")
	Doc(name + " " + doc + "; rows are pitch and stride bytes apart.")
	rows, left := Load(Param("rows"), GP64()), GP64()
	toRow, pitch := Load(Param("dst"), GP64()), Load(Param("pitch"), GP64())
	fromRow, stride := Load(Param("src"), GP64()), Load(Param("stride"), GP64())
	dst, src := GP64(), GP64()
	Label("rows")
	Load(Param("n"), left)
	MOVQ(toRow, dst)
	MOVQ(fromRow, src)
	Label("loop")
	body(Mem{Base: src}, Mem{Base: dst})
	ADDQ(I32(from), src)
	ADDQ(I32(to), dst)
	SUBQ(I32(elements), left)
	JNZ(LabelRef("loop"))
	ADDQ(pitch, toRow)
	ADDQ(stride, fromRow)
	DECQ(rows)
	JNZ(LabelRef("rows"))
	VZEROUPPER()
	RET()
}

// half returns a vector of half the length.
func (s set) half() reg.VecVirtual {
	if s.wide {
		return YMM()
	}
	return XMM()
}

// words8 loads 8-bit numbers into the lower halves of 16 bits.
func (s set) words8(m Mem) reg.VecVirtual {
	v := s.half()
	VPMOVZXBW(m, v)
	return v
}

// words loads 16-bit numbers into the lower halves of 32 bits.
func (s set) words(m Mem) reg.VecVirtual {
	v := s.vector()
	VPMOVZXWD(m, v)
	return v
}

// upper shifts lower halves into the upper ones.
func (s set) upper(v reg.VecVirtual) reg.VecVirtual {
	VPSLLD(Imm(16), v, v)
	return v
}

// orNaN returns nan where x is NaN, and x elsewhere.
func (s set) orNaN(x, nan reg.VecVirtual) reg.VecVirtual { return s.blendNaN(x, x, nan) }

// blendNaN returns nan where x is NaN, and y elsewhere.
func (s set) blendNaN(x, y, nan reg.VecVirtual) reg.VecVirtual {
	z := s.vector()
	if s.wide {
		k := K()
		VCMPPS(Imm(3), x, x, k)
		VBLENDMPS(nan, y, k, z)
		return z
	}
	mask := s.vector()
	VCMPPS(Imm(3), x, x, mask)
	VBLENDVPS(mask, nan, y, z)
	return z
}

// cpuid1 writes a function that reads CPUID's leaf 1.
func cpuid1() {
	TEXT("cpuid1", NOSPLIT, "func() (c uint32)")
	Doc("cpuid1 returns ECX of CPUID's leaf 1.")
	MOVL(U32(1), reg.EAX)
	XORL(reg.ECX, reg.ECX)
	CPUID()
	Store(reg.ECX, Return("c"))
	VZEROUPPER()
	RET()
}
