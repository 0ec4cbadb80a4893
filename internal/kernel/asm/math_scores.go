package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The functions below compute a router's scores from logits, in float64 and not rounded. Results
// are written in vectors of 8, so the buffer must extend past the last one.

// wider writes the function y = f(x) with y in float64, processing one vector of float64 at a time.
func (s lanes) wider(name, doc string, f func(x vec) vec) {
	TEXT(s.name+name, NOSPLIT, "func(n int, y *float64, x *float32)")
	Pragma("noescape")
	Doc(s.name + name + " is y = " + doc + ", for n elements. There is room for a multiple of 8 in y.")
	n, at := Load(Param("n"), GP64()), GP64()
	XORQ(at, at)
	y := Mem{Base: Load(Param("y"), GP64()), Index: at, Scale: 2}
	x := Mem{Base: Load(Param("x"), GP64()), Index: at, Scale: 1}
	s.inHalves("loop", n, at, x, 0, func(v vec) { VMOVUPD(f(v), y) })
	VZEROUPPER()
	RET()
}

// inHalves writes a loop over n float32 from x on. body gets one vector of them at a time, widened
// to float64 and padded with `none` after the last element. The loop overwrites n, and ends when no
// element is left.
func (s lanes) inHalves(label string, n, at reg.Register, x Mem, none float64, body func(v vec)) {
	count := s.bytes() / 8
	v, part := s.vector(), s.halved()
	last := s.newTail()
	Label(label)
	CMPQ(n, Imm(uint64(count)))
	JLT(LabelRef(label + "_tail"))
	part.loadHalf(x, v)
	JMP(LabelRef(label + "_body"))
	Label(label + "_tail")
	exist := GP64()
	MOVQ(n, exist)
	if none != 0 { // n may be below 0
		zero := GP64()
		XORQ(zero, zero)
		TESTQ(n, n)
		CMOVQLT(zero, exist)
	}
	s.setTail(last, exist)
	s.getInto(x, last, v)
	if none != 0 {
		VMOVAPS(s.where(last.mask, v, s.load(s.number(none))), v)
	}
	Label(label + "_body")
	wide := s.vector()
	if s.wide {
		VCVTPS2PD(v.AsY(), wide)
	} else {
		VCVTPS2PD(v.AsX(), wide)
	}
	body(wide)
	ADDQ(Imm(uint64(4*count)), at)
	SUBQ(Imm(uint64(count)), n)
	JG(LabelRef(label))
}

// eightOr returns 8 float32 as float64. With a tail, lanes that are not elements are `none`.
func (s lanes) eightOr(m Mem, t *tail, none float64) eight {
	if t == nil {
		return s.wide8(m, nil)
	}
	x := s.where(t.mask, s.get(m, t), s.load(s.number(none)))
	if s.wide {
		v := s.vector()
		VCVTPS2PD(x.AsY(), v)
		return eight{v}
	}
	low, high := s.widened(x)
	return eight{low, high}
}

// softmaxRows writes the function computing softmax of rows: the largest element, then the powers
// and their sum, using 8 partial sums, then the quotients.
func (s lanes) softmaxRows() {
	TEXT(s.name+"SoftmaxRows", NOSPLIT, "func(n int, y *float64, x *float32, rows int)")
	Pragma("noescape")
	Doc(s.name + "SoftmaxRows is softmax in float64 of rows, 1 or more, of n elements, 1 or more and none of them NaN. There is room for 7 more in y.")
	length, n, at := Load(Param("n"), GP64()), GP64(), GP64()
	yBase, xBase := Load(Param("y"), GP64()), Load(Param("x"), GP64())
	y, x := Mem{Base: yBase, Index: at, Scale: 2}, Mem{Base: xBase, Index: at, Scale: 1}
	rows, end := Load(Param("rows"), GP64()), GP64()
	Label("row")

	MOVQ(length, n)
	top := s.eight()
	top.each(func(_ int, v vec) { VMOVUPD(s.double(math.Inf(-1)), v) })
	s.inEights("top", n, at, func(t *tail) {
		s.eightOr(x, t, math.Inf(-1)).each(func(i int, v vec) { VMAXPD(v, top[i], top[i]) })
	})
	half := YMM()
	if s.wide {
		VEXTRACTF64X4(Imm(1), top[0], half)
		VMAXPD(half, top[0].AsY(), half)
	} else {
		VMAXPD(top[1], top[0], half)
	}
	low, high := XMM(), XMM()
	VEXTRACTF128(Imm(1), half, high)
	VMAXPD(high, half.AsX(), low)
	VPERMILPD(Imm(1), low, high)
	VMAXPD(high, low, low)
	largest := s.vector()
	VBROADCASTSD(low, largest)

	// Powers are computed for a multiple of 8 elements, padding with 0.
	LEAQ(Mem{Base: length, Disp: 7}, end)
	ANDQ(I32(-8), end)
	SHLQ(Imm(2), end)
	MOVQ(length, n)
	XORQ(at, at)
	Label("powers")
	s.inHalves("power", n, at, x, math.Inf(-1), func(v vec) { VMOVUPD(s.expD(s.subD(v, largest)), y) })
	CMPQ(at, end)
	JLT(LabelRef("powers"))

	sums := s.eight()
	XORQ(at, at)
	Label("sum")
	sums.each(func(i int, v vec) { VADDPD(y.Offset(i*s.bytes()), v, v) })
	ADDQ(Imm(32), at)
	CMPQ(at, end)
	JLT(LabelRef("sum"))
	total := s.vector()
	VBROADCASTSD(s.total(sums).AsX(), total)

	XORQ(at, at)
	Label("scale")
	for i := 0; i < 64; i += s.bytes() {
		v := s.load(y.Offset(i))
		VDIVPD(total, v, v)
		VMOVUPD(v, y.Offset(i))
	}
	ADDQ(Imm(32), at)
	CMPQ(at, end)
	JLT(LabelRef("scale"))

	LEAQ(Mem{Base: xBase, Index: length, Scale: 4}, xBase)
	LEAQ(Mem{Base: yBase, Index: length, Scale: 8}, yBase)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

func (s lanes) scores() {
	logistic := func(x vec) vec {
		z := s.expD(s.xor(s.doubles.bits(1<<63), x))
		return s.divD(s.double(1), s.addD(z, s.double(1)))
	}
	s.wider("Sigmoids", "1/(1 + exp(-x))", logistic)
	s.wider("RootSoftplus", "√log(1 + exp(x))", func(x vec) vec {
		positive := s.zero()
		VMAXPD(x, positive, positive)
		y := s.addD(s.log1pD(s.expD(s.or(s.doubles.bits(1<<63), x))), positive)
		VSQRTPD(y, y)
		return y
	})
	s.softmaxRows()
}
