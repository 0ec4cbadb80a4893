package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// eight is 8 float64: one vector or two.
type eight vs

func (s lanes) eight() eight {
	if s.wide {
		return eight{s.zero()}
	}
	return eight{s.zero(), s.zero()}
}

// wide8 returns 8 float32 as float64. With a tail, lanes that are not elements are zeros.
func (s lanes) wide8(m Mem, t *tail) eight {
	switch {
	case s.wide && t != nil:
		x, v := s.get(m, t), s.vector()
		VCVTPS2PD(x.AsY(), v)
		return eight{v}
	case s.wide:
		return eight{s.widen(m)}
	case t != nil:
		low, high := s.widened(s.get(m, t))
		return eight{low, high}
	}
	return eight{s.widen(m), s.widen(m.Offset(16))}
}

func (e eight) each(f func(i int, v vec)) {
	for i, v := range e {
		f(i, v)
	}
}

// inEights writes a loop over n float32, 8 at a time. For the last iteration, if it has fewer, body
// gets a tail. The loop overwrites n.
func (s lanes) inEights(label string, n, at reg.GPVirtual, body func(t *tail)) {
	XORQ(at, at)
	Label(label)
	CMPQ(n, Imm(8))
	JLT(LabelRef(label + "_tail"))
	body(nil)
	ADDQ(Imm(32), at)
	SUBQ(Imm(8), n)
	JMP(LabelRef(label))
	Label(label + "_tail")
	TESTQ(n, n)
	JZ(LabelRef(label + "_done"))
	body(s.tailOf(n))
	Label(label + "_done")
}

// total returns the sum of 8 lanes, adding lanes 4 apart first, then 2 and 1 apart.
func (s lanes) total(e eight) reg.VecVirtual {
	y := YMM()
	if s.wide {
		VEXTRACTF64X4(Imm(1), e[0], y)
		VADDPD(y, e[0].AsY(), y)
	} else {
		VADDPD(e[1], e[0], y)
	}
	x, high := XMM(), XMM()
	VEXTRACTF128(Imm(1), y, high)
	VADDPD(high, y.AsX(), x)
	VPERMILPD(Imm(1), x, high)
	VADDPD(high, x, x)
	return x
}

// sum writes the function adding n elements, or products, in 8 float64, and then adding these like
// total.
func (s lanes) sum(name, doc string, product bool) {
	args := "n int, x *float32"
	if product {
		args = "n int, x, y *float32"
	}
	TEXT(s.name+name, NOSPLIT, "func("+args+") float64")
	Pragma("noescape")
	Doc(s.name + name + " is " + doc + ".")
	n, at := Load(Param("n"), GP64()).(reg.GPVirtual), GP64()
	x := Mem{Base: Load(Param("x"), GP64()), Index: at, Scale: 1}
	y := x
	if product {
		y.Base = Load(Param("y"), GP64())
	}
	sums := s.eight()
	s.inEights("sum", n, at, func(t *tail) {
		v := s.wide8(x, t)
		if product {
			w := s.wide8(y, t)
			v.each(func(i int, v vec) { VMULPD(w[i], v, v) })
		}
		v.each(func(i int, v vec) { VADDPD(v, sums[i], sums[i]) })
	})
	Store(s.total(sums), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// sumRows writes the function adding rows of float32 to a row of float64.
func (s lanes) sumRows() {
	TEXT(s.name+"SumRows", NOSPLIT, "func(n int, sums *float64, x *float32, stride, rows int)")
	Pragma("noescape")
	Doc(s.name + "SumRows adds rows of n elements, at least one row, stride bytes apart, to sums, which has room for n rounded up to a multiple of 8.")
	n, at := Load(Param("n"), GP64()).(reg.GPVirtual), GP64()
	sums := Mem{Base: Load(Param("sums"), GP64()), Index: at, Scale: 2}
	x, stride := Load(Param("x"), GP64()), Load(Param("stride"), GP64())
	rows, left, row := Load(Param("rows"), GP64()), GP64(), GP64()
	s.inEights("sum", n, at, func(t *tail) {
		label := "row"
		if t != nil {
			label = "row_of_tail"
		}
		total := s.eight()
		total.each(func(i int, v vec) { VMOVUPD(sums.Offset(i*s.bytes()), v) })
		MOVQ(rows, left)
		LEAQ(Mem{Base: x, Index: at, Scale: 1}, row)
		Label(label)
		s.wide8(Mem{Base: row}, t).each(func(i int, v vec) { VADDPD(v, total[i], total[i]) })
		ADDQ(stride, row)
		DECQ(left)
		JNZ(LabelRef(label))
		total.each(func(i int, v vec) { VMOVUPD(v, sums.Offset(i*s.bytes())) })
	})
	VZEROUPPER()
	RET()
}

// sumTree writes the function adding 8 rows of float64 and rounding the sums to float32.
func (s lanes) sumTree() {
	TEXT(s.name+"SumTree", NOSPLIT, "func(n int, y *float32, sums *float64, stride int)")
	Pragma("noescape")
	Doc(s.name + "SumTree is y = the sums of n columns of 8 rows, stride bytes apart, which are added 4, 2 and 1 apart. There is room for a multiple of 8 in each row.")
	n, at := Load(Param("n"), GP64()).(reg.GPVirtual), GP64()
	y := Mem{Base: Load(Param("y"), GP64()), Index: at, Scale: 1}
	sums, stride := Load(Param("sums"), GP64()), Load(Param("stride"), GP64())
	row := GP64()
	s.inEights("sum", n, at, func(t *tail) {
		var halves vs
		for half := 0; half < 64; half += s.bytes() {
			LEAQ(Mem{Base: sums, Index: at, Scale: 2}, row)
			var v [8]vec
			for i := range v {
				v[i] = s.vector()
				VMOVUPD(Mem{Base: row, Disp: half}, v[i])
				if i < 7 {
					ADDQ(stride, row)
				}
			}
			for apart := 4; apart > 0; apart /= 2 {
				for i := range apart {
					VADDPD(v[i+apart], v[i], v[i])
				}
			}
			halves = append(halves, v[0])
		}
		if s.wide {
			z := s.zero()
			VCVTPD2PS(halves[0], z.AsY())
			if t == nil {
				VMOVUPS(z.AsY(), y)
			} else {
				s.put(z, y, t)
			}
			return
		}
		s.put(s.narrowed(halves[0], halves[1]), y, t)
	})
	VZEROUPPER()
	RET()
}

// extreme writes the function returning the largest or the smallest of n elements.
func (s lanes) extreme(name, doc string, none float64, pick func(x, y vec) vec) {
	TEXT(s.name+name, NOSPLIT, "func(n int, x *float32) float32")
	Pragma("noescape")
	Doc(s.name + name + " is " + doc + ".")
	n, at := Load(Param("n"), GP64()).(reg.GPVirtual), GP64()
	x := Mem{Base: Load(Param("x"), GP64()), Index: at, Scale: 1}
	var top [4]vec
	for i := range top {
		top[i] = s.load(s.number(none))
	}
	XORQ(at, at)
	step := s.bytes() / 4
	take := func(i int, v vec) { VMOVAPS(pick(top[i], v), top[i]) }
	for _, vectors := range []int{len(top), 1} {
		label := map[bool]string{true: "many", false: "one"}[vectors > 1]
		Label(label)
		CMPQ(n, I32(vectors*step))
		JLT(LabelRef("not_" + label))
		for i := range vectors {
			take(i, s.get(x.Offset(i*s.bytes()), nil))
		}
		ADDQ(I32(vectors*s.bytes()), at)
		SUBQ(I32(vectors*step), n)
		JMP(LabelRef(label))
		Label("not_" + label)
	}
	TESTQ(n, n)
	JZ(LabelRef("done"))
	t := s.tailOf(n)
	take(0, s.where(t.mask, s.get(x, t), s.load(s.number(none))))
	Label("done")
	v := pick(pick(top[0], top[1]), pick(top[2], top[3]))
	swap := func(f func(w vec)) {
		w := s.vector()
		f(w)
		v = pick(v, w)
	}
	if s.wide {
		swap(func(w vec) { VSHUFF64X2(Imm(0x4e), v, v, w) })
		swap(func(w vec) { VSHUFF64X2(Imm(0xb1), v, v, w) })
	} else {
		swap(func(w vec) { VPERM2F128(Imm(1), v, v, w) })
	}
	swap(func(w vec) { VPERMILPS(Imm(0x4e), v, w) })
	swap(func(w vec) { VPERMILPS(Imm(0xb1), v, w) })
	Store(v.AsX(), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// softmaxGrad writes the function z = x·(y - Σ x·y) of rows, which may be many and short.
func (s lanes) softmaxGrad() {
	TEXT(s.name+"SoftmaxGrad", NOSPLIT, "func(n int, z, x, y *float32, rows int)")
	Pragma("noescape")
	Doc(s.name + "SoftmaxGrad is z = x·(y - Σ x·y) in float64 for rows, 1 or more, of n elements, 1 or more; the sum is Dot's.")
	length, n, at := Load(Param("n"), GP64()), GP64(), GP64()
	row := func(name string) Mem { return Mem{Base: Load(Param(name), GP64()), Index: at, Scale: 1} }
	z, x, y, rows := row("z"), row("x"), row("y"), Load(Param("rows"), GP64())
	Label("row")
	MOVQ(length, n)
	sums := s.eight()
	s.inEights("sum", n, at, func(t *tail) {
		v, w := s.wide8(x, t), s.wide8(y, t)
		v.each(func(i int, v vec) {
			VMULPD(w[i], v, v)
			VADDPD(v, sums[i], sums[i])
		})
	})
	c := s.vector()
	VBROADCASTSD(s.total(sums).AsX(), c)
	MOVQ(length, n)
	s.inEights("scale", n, at, func(t *tail) {
		v, w := s.wide8(x, t), s.wide8(y, t)
		v.each(func(i int, v vec) {
			VSUBPD(c, w[i], w[i])
			VMULPD(w[i], v, v)
		})
		if !s.wide {
			s.put(s.narrowed(v[0], v[1]), z, t)
			return
		}
		narrow := s.zero()
		VCVTPD2PS(v[0], narrow.AsY())
		if t == nil {
			VMOVUPS(narrow.AsY(), z)
		} else {
			s.put(narrow, z, t)
		}
	})
	for _, m := range []Mem{z, x, y} {
		LEAQ(Mem{Base: m.Base, Index: length, Scale: 4}, m.Base)
	}
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// paramD returns a float64 parameter in all lanes.
func (s lanes) paramD(name string) vec {
	v := s.vector()
	VBROADCASTSD(address(Param(name)), v)
	return v
}

func (s lanes) reductions() {
	s.sum("Sum", "the sum of n elements in float64, as 8 sums that are added 4, 2 and 1 apart", false)
	s.sum("Dot", "the sum of n products in float64, as 8 sums that are added 4, 2 and 1 apart", true)
	s.sumRows()
	s.sumTree()
	s.extreme("Largest", "the largest of n elements, -Inf of none; NaN if one is, 0 rather than -0", math.Inf(-1), s.max)
	s.extreme("Smallest", "the smallest of n elements, Inf of none; NaN if one is, -0 rather than 0", math.Inf(1), s.min)
}

// softmaxGrads writes the functions for softmax and its derivatives of a line, in float64.
func (s lanes) softmaxGrads() {
	s.softmaxGrad()
	s = s.halved()
	var c, d vec
	take := func() { c = s.paramD("c") }
	s.loopOf(pointwise{name: "Less", doc: "y = (x - c) - d in float64", args: []string{"y", "x"}, more: ", c, d float64)", long: true, before: func() { take(); d = s.paramD("d") },
		body: s.doubled(func(x vs) vec { return s.subD(s.subD(x[0], c), d) })})
	s.loopOf(pointwise{name: "LogSoftmaxGrad", doc: "z = y - exp(x)·c in float64", args: []string{"z", "x", "y"}, more: ", c float64)", long: true, before: take,
		body: s.doubled(func(x vs) vec { return s.subD(x[1], s.mulD(s.expD(x[0]), c)) })})
}
