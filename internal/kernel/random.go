package kernel

import (
	"math"
	"unsafe"

	"github.com/gomoe/gomoe/array"
)

// Uniform fills dst with elements offset, offset+1, … of the flat array of
// numbers that belongs to key, uniform in [lo, hi): bit for bit what
// jax.random.uniform(key, shape, dtype, lo, hi) holds at these flat indices. A
// float32 has 23 random bits and a float64 52.
func Uniform[T Float](dst []T, key [2]uint32, offset uint64, lo, hi T) {
	span := hi - lo
	for i := range dst {
		x := Threefry2x32(key, Seed(offset+uint64(i)))
		var u T // in [1, 2)
		if unsafe.Sizeof(u) == 4 {
			u = T(math.Float32frombits((x[0]^x[1])>>9 | 0x3f800000))
		} else {
			u = T(math.Float64frombits((uint64(x[0])<<32|uint64(x[1]))>>12 | 0x3ff<<52))
		}
		dst[i] = max(lo, fused(u-1, span, lo))
	}
}

// fused returns x·y + z rounded once, as XLA's CPU backend compiles it. Of
// float32 the product is exact in float64, and the sum's two roundings differ
// from one in about 1 of 2^29 results.
func fused[T Float](x, y, z T) T {
	if unsafe.Sizeof(x) == 4 {
		return T(float64(x)*float64(y) + float64(z))
	}
	return T(math.FMA(float64(x), float64(y), float64(z)))
}

// UniformBrain is Uniform for bfloat16, with 7 random bits. Each operation is
// rounded to bfloat16.
func UniformBrain(dst []array.Brain, key [2]uint32, offset uint64, lo, hi array.Brain) {
	round := func(x float32) float32 { return array.BrainOf(x).Float32() }
	l := lo.Float32()
	span := round(hi.Float32() - l)
	for i := range dst {
		x := Threefry2x32(key, Seed(offset+uint64(i)))
		u := array.Brain(uint8(x[0]^x[1])>>1) | 0x3f80
		dst[i] = array.BrainOf(max(l, round((u.Float32()-1)*span)+l))
	}
}

// UniformHalf is Uniform for binary16, with 10 random bits. Each operation is
// rounded to binary16.
func UniformHalf(dst []array.Half, key [2]uint32, offset uint64, lo, hi array.Half) {
	round := func(x float32) float32 { return array.HalfOf(x).Float32() }
	l := lo.Float32()
	span := round(hi.Float32() - l)
	for i := range dst {
		x := Threefry2x32(key, Seed(offset+uint64(i)))
		u := array.Half(uint16(x[0]^x[1])>>6|0x3c00).Float32() - 1
		dst[i] = array.HalfOf(max(l, round(u*span)+l))
	}
}

// Normal fills dst as Uniform does, with normally distributed numbers of mean 0
// and variance 1: √2·erf⁻¹(u) for u uniform in (-1, 1), as jax.random.normal. A
// float32 is within 2 units in the last place of JAX's on a CPU, whose logarithm
// differs. A float64 is within 32, because JAX's inverse error function is a
// polynomial that is off by as much; this one is math.Erfinv.
func Normal[T Float](dst []T, key [2]uint32, offset uint64) {
	if unsafe.Sizeof(T(0)) == 4 {
		Uniform(dst, key, offset, T(math.Nextafter32(-1, 0)), 1)
		for i, u := range dst {
			dst[i] = T(float32(math.Sqrt2) * Erfinv32(float32(u)))
		}
		return
	}
	Uniform(dst, key, offset, T(math.Nextafter(-1, 0)), 1)
	for i, u := range dst {
		dst[i] = T(math.Sqrt2 * math.Erfinv(float64(u)))
	}
}

// NormalBrain is Normal for bfloat16: the uniform number, the inverse error
// function and the product are each rounded.
func NormalBrain(dst []array.Brain, key [2]uint32, offset uint64) {
	UniformBrain(dst, key, offset, array.BrainOf(-1+0x1p-8), array.BrainOf(1))
	root := array.BrainOf(math.Sqrt2).Float32()
	for i, u := range dst {
		dst[i] = array.BrainOf(root * array.BrainOf(Erfinv32(u.Float32())).Float32())
	}
}

// NormalHalf is Normal for binary16, rounded as NormalBrain is.
func NormalHalf(dst []array.Half, key [2]uint32, offset uint64) {
	UniformHalf(dst, key, offset, array.HalfOf(-1+0x1p-11), array.HalfOf(1))
	root := array.HalfOf(math.Sqrt2).Float32()
	for i, u := range dst {
		dst[i] = array.HalfOf(root * array.HalfOf(Erfinv32(u.Float32())).Float32())
	}
}

// Erfinv32 returns the inverse error function of x in [-1, 1], with the
// polynomials that XLA uses for float32. Source: Giles, "Approximating the
// erfinv function", GPU Computing Gems Jade Edition (2012).
func Erfinv32(x float32) float32 {
	if x == 1 || x == -1 {
		return x * float32(math.Inf(1))
	}
	w := -float32(math.Log1p(float64(-x * x)))
	p := [9]float32{2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
		-0.00125372503, -0.00417768164, 0.246640727, 1.50140941}
	if w < 5 {
		w -= 2.5
	} else {
		w = float32(math.Sqrt(float64(w))) - 3
		p = [9]float32{-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
			-0.0076224613, 0.00943887047, 1.00167406, 2.83297682}
	}
	y := p[0]
	for _, c := range p[1:] {
		y = c + float32(y*w)
	}
	return y * x
}
