package array

import (
	"math"

	"github.com/gomoe/gomoe/internal/half"
)

// Float32 returns x exactly: every bfloat16 number is a float32 number.
func (x Brain) Float32() float32 { return math.Float32frombits(uint32(x) << 16) }

// BrainOf returns x rounded to the nearest bfloat16 number, ties to even. A value
// rounding past the largest number becomes an infinity. A NaN becomes a quiet NaN with
// the same sign and the upper bits of its payload.
func BrainOf(x float32) Brain {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return Brain(b>>16 | 0x40)
	}
	return Brain((b + 0x7fff + b>>16&1) >> 16)
}

// BrainOf64 returns x rounded once. BrainOf(float32(x)) rounds twice: a tie
// that the first rounding creates may go the wrong way in the second.
func BrainOf64(x float64) Brain { return BrainOf(odd(x)) }

// Float32 returns x exactly: every binary16 number is a float32 number.
func (x Half) Float32() float32 {
	sign, b := uint32(x&0x8000)<<16, uint32(x&0x7fff)
	switch {
	case b < 0x0400: // zero and subnormals: b steps of 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(b)*0x1p-24))
	case b >= 0x7c00: // infinities and NaNs
		return math.Float32frombits(sign | 0x7f800000 | b<<13)
	}
	return math.Float32frombits(sign | (b<<13 + (127-15)<<23))
}

// HalfOf returns x rounded to the nearest binary16 number, ties to even. A value rounding
// past 65504 becomes an infinity. A NaN becomes a quiet NaN with the same sign and the
// upper bits of its payload.
func HalfOf(x float32) Half {
	b := math.Float32bits(x)
	sign := Half(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00 | Half(b>>13&0x3ff)
	case b >= 0x47800000: // 2^16 and above
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: the sum's last bit is worth 2^-24, so the addition rounds
		return sign | Half(math.Float32bits(math.Float32frombits(b)+0.5)-math.Float32bits(0.5))
	}
	return sign | Half((b-(127-15)<<23+0xfff+b>>13&1)>>13)
}

// HalfOf64 returns x rounded once; see BrainOf64.
func HalfOf64(x float64) Half { return HalfOf(odd(x)) }

// odd returns x rounded to odd: towards zero, and if that was inexact, with the last bit
// set. After rounding to odd, a second rounding to a format at least two bits narrower is
// correct (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
func odd(x float64) float32 {
	f := float32(x)
	if float64(f) == x || x != x {
		return f
	}
	b := math.Float32bits(f)
	if math.Abs(float64(f)) > math.Abs(x) {
		b--
	}
	return math.Float32frombits(b | 1)
}

// WidenBrain sets dst[i] to src[i] for every i of src; dst is at least as long.
func WidenBrain(dst []float32, src []Brain) {
	dst = dst[:len(src)]
	for i := half.WidenBrain(dst, src); i < len(src); i++ {
		dst[i] = src[i].Float32()
	}
}

// NarrowBrain sets dst[i] to BrainOf(src[i]) for every i of src; dst is at
// least as long.
func NarrowBrain(dst []Brain, src []float32) {
	dst = dst[:len(src)]
	for i := half.NarrowBrain(dst, src); i < len(src); i++ {
		dst[i] = BrainOf(src[i])
	}
}

// WidenHalf sets dst[i] to src[i] for every i of src; dst is at least as long.
func WidenHalf(dst []float32, src []Half) {
	dst = dst[:len(src)]
	for i := half.WidenHalf(dst, src); i < len(src); i++ {
		dst[i] = src[i].Float32()
	}
}

// NarrowHalf sets dst[i] to HalfOf(src[i]) for every i of src; dst is at least
// as long.
func NarrowHalf(dst []Half, src []float32) {
	dst = dst[:len(src)]
	for i := half.NarrowHalf(dst, src); i < len(src); i++ {
		dst[i] = HalfOf(src[i])
	}
}
