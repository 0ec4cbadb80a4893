package random

import (
	"math"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/kernel"
)

// Uniform fills dst with the elements offset, offset+1, … of the flat array of uniform
// numbers in [lo, hi) that belongs to key. They are, bit for bit, the elements of
// jax.random.uniform(key, shape, dtype, lo, hi) at these flat indices. A float32 has 23
// random bits and a float64 52.
func Uniform[T kernel.Float](dst []T, key [2]uint32, offset uint64, lo, hi T) {
	uniform(loopsOf[T](), dst, key, offset, lo, hi)
}

// few is the number of elements drawn at a time by functions that traverse their result
// more than once. That many stay in the first-level cache.
const few = 2048

func uniform[T kernel.Float](l *loops, dst []T, key [2]uint32, offset uint64, lo, hi T) {
	span := hi - lo
	if l != nil && l.uniform != nil {
		for at := 0; at < len(dst); at += few {
			y := kernel.Float32s(dst[at:min(at+few, len(dst))])
			bits32(l, unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(y))), len(y)), key, offset+uint64(at))
			l.uniform(len(y), first(y), first(y), float32(lo), float32(span))
		}
		return
	}
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

// fused returns x·y + z rounded once, as in XLA's CPU backend. For float32 it computes in
// float64, in which the product is exact. The sum is then rounded twice, which differs
// from rounding once in about 1 of 2^29 results.
func fused[T kernel.Float](x, y, z T) T {
	if unsafe.Sizeof(x) == 4 {
		return T(float64(float64(x)*float64(y)) + float64(z))
	}
	return T(math.FMA(float64(x), float64(y), float64(z)))
}

// UniformBrain is Uniform for bfloat16, with 7 random bits. Each operation is
// rounded to bfloat16.
func UniformBrain(dst []array.Brain, key [2]uint32, offset uint64, lo, hi array.Brain) {
	round := func(x float32) float32 { return array.BrainOf(x).Float32() }
	l := lo.Float32()
	span := round(hi.Float32() - l)
	inWords(len(dst), key, offset, func(i int, x uint32) {
		u := array.Brain(uint8(x)>>1) | 0x3f80
		dst[i] = array.BrainOf(max(l, round((u.Float32()-1)*span)+l))
	})
}

// UniformHalf is Uniform for binary16, with 10 random bits. Each operation is rounded to
// binary16, as in XLA on processors without arithmetic of binary16. With AVX512-FP16 XLA
// rounds the product and the sum once, changing about one element in ten.
func UniformHalf(dst []array.Half, key [2]uint32, offset uint64, lo, hi array.Half) {
	round := func(x float32) float32 { return array.HalfOf(x).Float32() }
	l := lo.Float32()
	span := round(hi.Float32() - l)
	inWords(len(dst), key, offset, func(i int, x uint32) {
		u := array.Half(uint16(x)>>6|0x3c00).Float32() - 1
		dst[i] = array.HalfOf(max(l, round(u*span)+l))
	})
}

// Normal fills dst like Uniform, but with normally distributed numbers of mean 0 and
// variance 1: √2·erf⁻¹(u) for u uniform in (-1, 1), as jax.random.normal. Compared with
// JAX 0.10.2 on a CPU, 99% of 2 million float32 had the same bits and none was more than
// 3 units in the last place away; of float64 it was 95% and 30 units, because JAX's
// logarithm differs from ours. With avx2 and avx512 the products and sums of the inverse
// error function of float32 are rounded once instead of twice, changing 1 of 2²⁶ results.
func Normal[T kernel.Float](dst []T, key [2]uint32, offset uint64) {
	normal(loopsOf[T](), dst, key, offset)
}

func normal[T kernel.Float](l *loops, dst []T, key [2]uint32, offset uint64) {
	if unsafe.Sizeof(T(0)) == 4 {
		for at := 0; l != nil && l.normal != nil && at < len(dst); at += few {
			y := dst[at:min(at+few, len(dst))]
			uniform(l, y, key, offset+uint64(at), T(math.Nextafter32(-1, 0)), 1)
			l.normal(len(y), first(y), first(y))
		}
		if l != nil && l.normal != nil {
			return
		}
		uniform(l, dst, key, offset, T(math.Nextafter32(-1, 0)), 1)
		for i, u := range dst {
			dst[i] = T(float32(math.Sqrt2) * erfinv32(float32(u)))
		}
		return
	}
	Uniform(dst, key, offset, T(math.Nextafter(-1, 0)), 1)
	for i, u := range dst {
		dst[i] = T(math.Sqrt2 * erfinv64(float64(u)))
	}
}

// NormalBrain is Normal for bfloat16: the uniform number, the inverse error
// function and the product are each rounded.
func NormalBrain(dst []array.Brain, key [2]uint32, offset uint64) {
	UniformBrain(dst, key, offset, array.BrainOf(-1+0x1p-8), array.BrainOf(1))
	root := array.BrainOf(math.Sqrt2).Float32()
	for i, u := range dst {
		dst[i] = array.BrainOf(root * array.BrainOf(erfinv32(u.Float32())).Float32())
	}
}

// NormalHalf is Normal for binary16, with the same roundings as NormalBrain.
func NormalHalf(dst []array.Half, key [2]uint32, offset uint64) {
	UniformHalf(dst, key, offset, array.HalfOf(-1+0x1p-11), array.HalfOf(1))
	root := array.HalfOf(math.Sqrt2).Float32()
	for i, u := range dst {
		dst[i] = array.HalfOf(root * array.HalfOf(erfinv32(u.Float32())).Float32())
	}
}
