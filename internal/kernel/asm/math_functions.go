package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// The functions below are of float32, computed in float64 and rounded once. Polynomials without a
// stated source interpolate in Chebyshev's points; the comments of their coefficients state the
// relative error.

func (s lanes) mulD(x, y Op) vec     { return s.op2(VMULPD, x, y) }
func (s lanes) addD(x, y Op) vec     { return s.op2(VADDPD, x, y) }
func (s lanes) subD(x vec, y Op) vec { return s.op2(VSUBPD, x, y) }

// divD returns x/y, where x is memory such as a constant.
func (s lanes) divD(x Op, y vec) vec {
	z := s.load(x.(Mem))
	VDIVPD(y, z, z)
	return z
}

// fmaD returns x·y + z, rounded once.
func (s lanes) fmaD(x vec, y, z Op) vec {
	r := s.vector()
	VMOVAPD(x, r)
	if v, ok := y.(vec); ok {
		VFMADD213PD(z, v, r)
		return r
	}
	v := s.vector()
	VMOVUPD(y, v)
	VFMADD213PD(z, v, r)
	return r
}

// polynomial returns the value at x of the polynomial with these coefficients, the highest
// power's first.
func (s lanes) polynomial(x vec, coefficients ...float64) vec {
	q := s.load(s.double(coefficients[0]))
	for _, c := range coefficients[1:] {
		VFMADD213PD(s.double(c), x, q)
	}
	return q
}

// constD returns a register holding x.
func (s lanes) constD(x float64) vec { return s.load(s.double(x)) }

// rounding, added to a number below 2^51, leaves the number, rounded to an integer, in the
// lowest bits of the sum.
const rounding = 0x1.8p52

// power returns p = exp(r) - 1 and a power of two t with exp(x) = t + t·p. x is first
// clamped to ±700.
func (s lanes) power(x vec) (p, t vec) {
	y := s.constD(-700)
	VMAXPD(x, y, y) // NaN is x
	high := s.constD(700)
	VMINPD(y, high, y)
	t = s.constD(rounding)
	VFMADD231PD(s.double(math.Log2E), y, t)
	n := s.subD(t, s.double(rounding))
	VFNMADD231PD(s.double(0x1.62e42fefa39efp-1), n, y)
	VFNMADD231PD(s.double(0x1.abc9e3b39803fp-56), n, y)
	VPSLLQ(Imm(52), t, t)
	VPADDQ(s.double(1), t, t)
	q := s.polynomial(y, expCoefficients()...)
	return s.fmaD(s.mulD(y, y), q, y), t
}

func (s lanes) expD(x vec) vec {
	p, t := s.power(x)
	VFMADD213PD(t, t, p)
	return p
}

func (s lanes) expm1D(x vec) vec {
	p, t := s.power(x)
	y := s.subD(t, s.double(1))
	VFMADD231PD(t, p, y)
	return y
}

// logD computes log as FreeBSD's e_log.c does, and math.Log.
func (s lanes) logD(x vec) vec {
	const half = 0x3fe6a09e667f3bcd // √½
	shifted, k, m := s.vector(), s.vector(), s.vector()
	VPADDQ(s.doubles.bits(0x3ff0000000000000-half), x, shifted)
	VPSRLQ(Imm(52), shifted, k)
	k = s.or(s.double(0x1p52), k)
	VSUBPD(s.double(0x1p52+1023), k, k)
	m = s.and(s.doubles.bits(1<<52-1), shifted)
	VPADDQ(s.doubles.bits(half), m, m)
	f := s.subD(m, s.double(1))
	w := s.vector()
	VDIVPD(s.addD(f, s.double(2)), f, w)
	z := s.mulD(w, w)
	r := s.polynomial(z, 1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
		2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01)
	square := s.mulD(s.mulD(f, f), s.double(0.5))
	r = s.fmaD(r, z, square)
	low := s.mulD(k, s.double(1.90821492927058770002e-10))
	VFMADD231PD(w, r, low)
	square = s.subD(square, low)
	square = s.subD(square, f)
	y := s.constD(6.93147180369123816490e-01)
	VFMSUB213PD(square, k, y)
	y = s.whereD(s.isD(equal, x, s.double(math.Inf(1))), x, y)
	zero := s.zero()
	y = s.whereD(s.isD(equal, x, zero), s.double(math.Inf(-1)), y)
	return s.whereD(s.isD(notAtLeast, x, zero), s.double(math.NaN()), y)
}

// log1pD adds to the logarithm of 1 + x the rounding error of 1 + x, for small x.
func (s lanes) log1pD(x vec) vec {
	u := s.addD(x, s.double(1))
	lost := s.subD(x, s.subD(u, s.double(1)))
	small := s.isD(less, s.and(s.doubles.bits(1<<63-1), x), s.double(1))
	zero := s.zero()
	y := s.addD(s.logD(u), s.whereD(small, lost, zero))
	return s.or(s.and(s.doubles.bits(1<<63), x), y) // -0 stays
}

// circle returns sin(x), or cos(x), for |x| below 2^50, with FreeBSD's polynomials.
func (s lanes) circle(x vec, cos bool) vec {
	t := s.constD(rounding)
	VFMADD231PD(s.double(2/math.Pi), x, t)
	n := s.subD(t, s.double(rounding))
	r := s.vector()
	VMOVAPD(x, r)
	VFNMADD231PD(s.double(0x1.921fb54442d18p0), n, r)
	VFNMADD231PD(s.double(0x1.1a62633145c07p-54), n, r)
	z := s.mulD(r, r)
	even := s.polynomial(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
		2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02, -0.5, 1)
	odd := s.mulD(r, s.polynomial(z, 1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
		-1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01, 1))
	if cos {
		VPADDQ(s.doubles.bits(1), t, t)
	}
	quarter, turn := s.vector(), s.vector()
	VPSLLQ(Imm(63), t, quarter)
	VPSLLQ(Imm(62), t, turn)
	y := s.whereD(s.signD(quarter), even, odd)
	return s.xor(s.and(s.doubles.bits(1<<63), turn), y)
}

// erfD returns erf(x) as x times a polynomial in x² - 8, with x clamped to ±4.
func (s lanes) erfD(x vec) vec {
	y := s.clampD(x, 4)
	u := s.constD(-8)
	VFMADD231PD(y, y, u)
	return s.mulD(y, s.polynomial(u, erfCoefficients()...))
}

// clampD returns x clamped to ±bound, or NaN if x is NaN.
func (s lanes) clampD(x vec, bound float64) vec {
	y := s.constD(-bound)
	VMAXPD(x, y, y)
	high := s.constD(bound)
	VMINPD(y, high, y)
	return y
}

// normal returns the normal distribution function at x, and e = exp(-x²/2). e is 0 where
// |x| is 10⁴ or more, so that e times infinity is NaN. With z = |x|/√2, the distribution
// function at -|x| is ½ exp(-z²) w/(1+2z), where w is a polynomial in (z-3)/(z+3). z is clamped to
// 10.5; beyond that the result is less than half of the smallest float32.
func (s lanes) normal(x vec) (phi, e vec) {
	e = s.expD(s.mulD(s.mulD(x, x), s.double(-0.5)))
	e = s.and(e, s.above(s.or(s.doubles.bits(1<<63), x), -1e4))
	z := s.mulD(s.and(s.doubles.bits(1<<63-1), x), s.double(math.Sqrt2/2))
	high := s.constD(10.5)
	VMINPD(z, high, z)
	up, down := s.addD(z, s.double(3)), s.addD(z, z)
	VADDPD(s.double(1), down, down)
	// One division for both: (z-3)/(z+3) and 1/(1+2z).
	inverse := s.divD(s.double(1), s.mulD(up, down))
	t := s.mulD(s.mulD(s.subD(z, s.double(3)), down), inverse)
	tail := s.mulD(s.mulD(s.polynomial(t, erfcCoefficients()...), s.mulD(up, inverse)), s.mulD(e, s.double(0.5)))
	rest := s.constD(1)
	VSUBPD(tail, rest, rest)
	return s.whereD(s.isD(less, x, s.zero()), tail, rest), e
}

// powD returns exp(y·log |x|), giving a negative x the sign for an integral y.
func (s lanes) powD(x, y vec) vec {
	abs, zero, one := s.and(s.doubles.bits(1<<63-1), x), s.zero(), s.constD(1)
	z := s.expD(s.mulD(y, s.logD(abs)))
	z = s.whereD(s.isD(equal, abs, one), one, z) // also where y is infinite
	whole, half, even := s.vector(), s.mulD(y, s.double(0.5)), s.vector()
	VROUNDPD(Imm(11), y, whole)
	VROUNDPD(Imm(11), half, even)
	sign := s.whereD(s.isD(equal, half, even), zero, s.and(s.doubles.bits(1<<63), x))
	// Among negative numbers, only -Inf has powers with a y that is not integral.
	other := s.whereD(s.isD(less, x, zero), s.double(math.NaN()), z)
	other = s.whereD(s.isD(equal, abs, s.double(math.Inf(1))), z, other)
	z = s.whereD(s.isD(equal, y, whole), s.or(sign, z), other)
	z = s.whereD(s.isD(equal, y, zero), one, z)
	return s.whereD(s.isD(equal, x, one), one, z)
}

// above returns ones where x is not less than bound, zeros elsewhere.
func (s lanes) above(x vec, bound float64) vec {
	zero, ones := s.zero(), s.load(s.doubles.bits(math.MaxUint64))
	return s.whereD(s.isD(less, x, s.double(bound)), zero, ones)
}

// gate returns the factor of x in gelu's approximation by tanh, y = logistic(2√(2/π)(x +
// 0.044715 x³)), and 1-y. y is 0 below -10⁴, and 1-y is 0 above 10⁴.
func (s lanes) gate(x vec) (y, rest vec) {
	inner := s.constD(1)
	VFMADD231PD(s.double(geluCubic), s.mulD(x, x), inner)
	z := s.expD(s.mulD(s.mulD(inner, x), s.double(-2*geluScale)))
	y = s.divD(s.double(1), s.addD(z, s.double(1)))
	rest = s.and(s.mulD(z, y), s.above(s.xor(s.doubles.bits(1<<63), x), -1e4))
	return s.and(y, s.above(x, -1e4)), rest
}

// geluScale is √(2/π) and geluCubic the factor of x³, both of gelu's approximation by
// tanh. geluNormal is 1/√(2π).
const (
	geluScale  = 0.79788456080286535587989211986876
	geluCubic  = 0.044715
	geluNormal = 0.39894228040143267793994605993438
)

// functions writes the functions computed in float64. Functions used by models in every step are
// written for AVX-512 too. The others use AVX2's also with AVX-512; the bits are the same.
func (s lanes) functions() {
	s = s.halved()
	one := func(name, doc string, f func(x vec) vec) {
		g := s.doubled(func(x vs) vec { return f(x[0]) })
		s.unary(name, doc, 0, func(x vec) vec { return g(vs{x}) })
	}
	gradient := func(name, doc string, f func(x, ct vec) vec) {
		g := s.doubled(func(x vs) vec { return f(x[0], x[1]) })
		s.binary(name, doc, 0, func(x, y vec) vec { return g(vs{x, y}) })
	}
	one("Rsqrt", "1/√x", func(x vec) vec {
		root := s.vector()
		VSQRTPD(x, root)
		return s.divD(s.double(1), root)
	})
	one("Log", "log x", s.logD)
	one("GELU", "x·Φ(x)", func(x vec) vec {
		phi, _ := s.normal(x)
		return s.mulD(x, phi)
	})
	gradient("GELUGrad", "y·(Φ(x) + x·φ(x))", func(x, ct vec) vec {
		phi, e := s.normal(x)
		VFMADD231PD(s.mulD(x, s.double(geluNormal)), e, phi)
		return s.mulD(ct, phi)
	})
	one("GELUTanh", "x·½(1 + tanh(√(2/π)(x + 0.044715 x³)))", func(x vec) vec {
		y, _ := s.gate(x)
		return s.mulD(x, y)
	})
	gradient("GELUTanhGrad", "y times the derivative of GELUTanh at x", func(x, ct vec) vec {
		y, rest := s.gate(x)
		inner := s.constD(2 * geluScale)
		VFMADD231PD(s.double(6*geluCubic*geluScale), s.mulD(x, x), inner)
		slope := s.mulD(s.mulD(y, rest), s.mulD(x, inner))
		return s.mulD(ct, s.addD(slope, y))
	})
	if s.wide {
		return
	}
	one("Expm1", "exp(x) - 1", func(x vec) vec {
		y := s.expm1D(x)
		return s.or(s.and(s.doubles.bits(1<<63), x), y) // -0 stays
	})
	one("Log1p", "log(1 + x)", s.log1pD)
	one("Erf", "erf x", s.erfD)
	gradient("Pow", "x to the power of y", s.powD)
	s.round("Sin", false)
	s.round("Cos", true)
}

// round writes the function for sin or cos. Where |x| is 2^50 or more its result is x itself, which
// is never a sine or cosine, and it then returns a number other than 0.
func (s lanes) round(name string, cos bool) {
	var large mask
	f := s.doubled(func(x vs) vec { return s.circle(x[0], cos) })
	s.loopOf(pointwise{name: name, doc: "y = " + map[bool]string{false: "sin x", true: "cos x"}[cos] + ", or x where |x| ≥ 2^50, and whether there was one", args: []string{"y", "x"}, more: ") uint32", long: true,
		before: func() {
			if s.wide {
				large.k = K()
				KXORW(large.k, large.k, large.k)
			} else {
				large.v = s.zero()
			}
		},
		body: func(x vs) vec {
			m := s.is(atLeast, s.and(s.table.bits(1<<31-1), x[0]), s.number(0x1p50))
			if s.wide {
				KORW(m.k, large.k, large.k)
			} else {
				VORPS(m.v, large.v, large.v)
			}
			return s.where(m, x[0], f(x))
		},
		after: func() {
			r := GP32()
			if s.wide {
				KMOVW(large.k, r)
			} else {
				VMOVMSKPS(large.v, r)
			}
			Store(r, ReturnIndex(0))
		}})
}
