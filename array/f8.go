package array

import (
	"math"

	"github.com/gomoe/gomoe/internal/half"
)

// E4M3 is the bits of an f8_e4m3 number: a sign, 4 bits of exponent with bias 7, and 3
// bits of fraction. There are no infinities, and one NaN for each sign. The largest
// number is 448, the smallest normal one 2^-6, the smallest 2^-9. JAX calls it
// float8_e4m3fn.
type E4M3 uint8

// E5M2 is the bits of an f8_e5m2 number: a sign, 5 bits of exponent with bias 15, and 2
// bits of fraction, with infinities and NaNs as in binary16. The largest number is 57344,
// the smallest normal one 2^-14, the smallest 2^-16.
type E5M2 uint8

// All values of the two formats, indexed by their bits.
var (
	e4m3Values = values(func(x E4M3) float32 {
		sign, b := uint32(x&0x80)<<24, uint32(x&0x7f)
		switch {
		case b == 0x7f:
			return math.Float32frombits(sign | 0x7fc00000)
		case b < 0x08: // zero and subnormals: b steps of 2^-9
			return math.Float32frombits(sign | math.Float32bits(float32(b)*0x1p-9))
		}
		return math.Float32frombits(sign | (b<<20 + (127-7)<<23))
	})
	e5m2Values = values(func(x E5M2) float32 {
		sign, b := uint32(x&0x80)<<24, uint32(x&0x7f)
		switch {
		case b > 0x7c:
			return math.Float32frombits(sign | 0x7fc00000 | b<<21)
		case b == 0x7c:
			return math.Float32frombits(sign | 0x7f800000)
		case b < 0x04: // zero and subnormals: b steps of 2^-16
			return math.Float32frombits(sign | math.Float32bits(float32(b)*0x1p-16))
		}
		return math.Float32frombits(sign | (b<<21 + (127-15)<<23))
	})
)

func values[E E4M3 | E5M2](value func(E) float32) (v [256]float32) {
	for i := range v {
		v[i] = value(E(i))
	}
	return v
}

// Float32 returns x exactly: every number of the format is a float32 number.
func (x E4M3) Float32() float32 { return e4m3Values[x] }

// Float32 returns x exactly: every number of the format is a float32 number.
func (x E5M2) Float32() float32 { return e5m2Values[x] }

// E4M3Of returns x rounded to the nearest f8_e4m3 number, ties to even. It saturates: a
// value beyond 448, including an infinity, becomes 448 with its sign. A NaN stays a NaN,
// with its sign. Source: the saturating conversion of OFP8, revision 1.0. JAX and
// ml_dtypes convert values beyond the range to NaN.
func E4M3Of(x float32) E4M3 {
	b := math.Float32bits(x)
	sign := E4M3(b >> 24 & 0x80)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7f
	case b >= 0x43e00000: // 448
		return sign | 0x7e
	case b < 0x3c800000: // below 2^-6: the sum's last bit is worth 2^-9, so the addition rounds
		return sign | E4M3(math.Float32bits(math.Float32frombits(b)+0x1p14)-math.Float32bits(0x1p14))
	}
	return sign | E4M3((b-(127-7)<<23+0x7ffff+b>>20&1)>>20)
}

// E5M2Of is E4M3Of for f8_e5m2, where the largest number is 57344. An infinity becomes
// 57344 as well, because OFP8 saturates.
func E5M2Of(x float32) E5M2 {
	b := math.Float32bits(x)
	sign := E5M2(b >> 24 & 0x80)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e
	case b >= 0x47600000: // 57344
		return sign | 0x7b
	case b < 0x38800000: // below 2^-14: the sum's last bit is worth 2^-16, so the addition rounds
		return sign | E5M2(math.Float32bits(math.Float32frombits(b)+0x1p7)-math.Float32bits(0x1p7))
	}
	return sign | E5M2((b-(127-15)<<23+0xfffff+b>>21&1)>>21)
}

// E4M3Of64 returns x rounded once; see BrainOf64.
func E4M3Of64(x float64) E4M3 { return E4M3Of(odd(x)) }

// E5M2Of64 returns x rounded once; see BrainOf64.
func E5M2Of64(x float64) E5M2 { return E5M2Of(odd(x)) }

// WidenE4M3 sets dst[i] to src[i] for every i of src; dst is at least as long.
func WidenE4M3(dst []float32, src []E4M3) {
	dst = dst[:len(src)]
	for i := half.WidenE4M3(dst, src); i < len(src); i++ {
		dst[i] = src[i].Float32()
	}
}

// WidenE5M2 sets dst[i] to src[i] for every i of src; dst is at least as long.
func WidenE5M2(dst []float32, src []E5M2) {
	dst = dst[:len(src)]
	for i := half.WidenE5M2(dst, src); i < len(src); i++ {
		dst[i] = src[i].Float32()
	}
}

// NarrowE4M3 sets dst[i] to E4M3Of(src[i]) for every i of src; dst is at least as long.
func NarrowE4M3(dst []E4M3, src []float32) {
	dst = dst[:len(src)]
	for i := half.NarrowE4M3(dst, src); i < len(src); i++ {
		dst[i] = E4M3Of(src[i])
	}
}

// NarrowE5M2 sets dst[i] to E5M2Of(src[i]) for every i of src; dst is at least as long.
func NarrowE5M2(dst []E5M2, src []float32) {
	dst = dst[:len(src)]
	for i := half.NarrowE5M2(dst, src); i < len(src); i++ {
		dst[i] = E5M2Of(src[i])
	}
}
