package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// selects writes a function selecting each element from one of two slices by a byte, 0 or 1.
func (s lanes) selects() {
	TEXT(s.name+"Select", NOSPLIT, "func(n int, z, yes, no *float32, which *byte)")
	Pragma("noescape")
	Doc(s.name + "Select is z = yes where which is 1, else no, for n elements, a multiple of 16 and not 0.")
	n, at := Load(Param("n"), GP64()), GP64()
	XORQ(at, at)
	slice := func(name string) Mem { return Mem{Base: Load(Param(name), GP64()), Index: at, Scale: 4} }
	z, yes, no := slice("z"), slice("yes"), slice("no")
	which := Mem{Base: Load(Param("which"), GP64()), Index: at, Scale: 1}
	Label("loop")
	for part := 0; part < 64; part += s.bytes() {
		w := s.vector()
		VPMOVZXBD(which.Offset(part/4), w)
		var m mask
		if s.wide {
			m.k = K()
			VPTESTMD(w, w, m.k)
		} else {
			VPSLLD(Imm(31), w, w)
			m.v = w
		}
		s.put(s.where(m, s.load(yes.Offset(part)), s.load(no.Offset(part))), z.Offset(part), nil)
	}
	ADDQ(Imm(16), at)
	CMPQ(at, n)
	JLT(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// compares writes a function with bytes, 0 or 1, as results.
func (s lanes) compares(name, doc string, predicate uint8) {
	TEXT(s.name+name, NOSPLIT, "func(n int, z *byte, x, y *float32)")
	Pragma("noescape")
	Doc(s.name + name + " is z = 1 where " + doc + ", else 0, for n elements, a multiple of 16 and not 0.")
	n, at := Load(Param("n"), GP64()), GP64()
	XORQ(at, at)
	x := Mem{Base: Load(Param("x"), GP64()), Index: at, Scale: 4}
	y := Mem{Base: Load(Param("y"), GP64()), Index: at, Scale: 4}
	z := Mem{Base: Load(Param("z"), GP64()), Index: at, Scale: 1}
	Label("loop")
	if s.wide {
		m := s.is(predicate, s.load(x), y)
		ones := s.vector()
		VMOVDQA32_Z(s.load(s.table.bits(1)), m.k, ones)
		bytes := XMM()
		VPMOVDB(ones, bytes)
		VMOVDQU(bytes, z)
	} else {
		low, high := s.is(predicate, s.load(x), y).v, s.is(predicate, s.load(x.Offset(32)), y.Offset(32)).v
		words, bytes := YMM(), XMM()
		VPACKSSDW(high, low, words)
		VPERMQ(Imm(0xd8), words, words)
		VEXTRACTI128(Imm(1), words, bytes)
		VPACKSSWB(bytes, words.AsX(), bytes)
		ones := XMM()
		VMOVDQU(s.table.bits(0x01010101), ones)
		VPAND(ones, bytes, bytes)
		VMOVDQU(bytes, z)
	}
	ADDQ(Imm(16), at)
	CMPQ(at, n)
	JLT(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

func (s lanes) conversions() {
	s.unary("FromInt", "x, an int32, as a float32", 4, func(x vec) vec {
		y := s.vector()
		VCVTDQ2PS(x, y)
		return y
	})
	s.unary("ToInt", "x as an int32, truncated, the nearest one if it is out of range, 0 if it is NaN", 2, func(x vec) vec {
		y := s.vector()
		VCVTTPS2DQ(x, y)
		y = s.where(s.is(atLeast, x, s.number(0x1p31)), s.table.bits(math.MaxInt32), y)
		return s.where(s.is(unordered, x, x), s.zero(), y)
	})
	// Order makes integers having the order of the floats.
	s.unary("Order", "an int32 that is greater where x is; 0 is above -0, and NaN above all", 2, func(x vec) vec {
		y := s.vector()
		VPSRAD(Imm(31), x, y)
		y = s.xor(s.and(s.table.bits(math.MaxInt32), y), x)
		return s.where(s.is(unordered, x, x), s.table.bits(math.MaxInt32), y)
	})
}

func (s lanes) logic() {
	s.selects()
	for _, c := range []struct {
		name, doc string
		predicate uint8
	}{{"Equal", "x = y", equal}, {"Unequal", "x ≠ y", 4}, {"Less", "x < y", less}, {"AtMost", "x ≤ y", 2}, {"Greater", "x > y", greater}, {"AtLeast", "x ≥ y", atLeast}} {
		s.compares("Is"+c.name, c.doc, c.predicate)
	}
	s.conversions()
}
