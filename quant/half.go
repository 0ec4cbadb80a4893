package quant

import (
	"encoding/binary"
	"math"
)

// Half reads an f16. Package array has the same function, but it imports this
// package.
func Half(b []byte) float32 {
	h := uint32(binary.LittleEndian.Uint16(b))
	sign, x := h&0x8000<<16, h&0x7fff
	switch {
	case x < 0x0400:
		return math.Float32frombits(sign | math.Float32bits(float32(x)*0x1p-24))
	case x >= 0x7c00:
		return math.Float32frombits(sign | 0x7f800000 | x<<13)
	}
	return math.Float32frombits(sign | (x<<13 + (127-15)<<23))
}

// setHalf writes x rounded to the nearest f16, ties to even, returning the rounded value.
func setHalf(b []byte, x float32) float32 {
	u := math.Float32bits(x)
	sign, h := u>>16&0x8000, uint32(0)
	switch u &= 0x7fffffff; {
	case u > 0x7f800000:
		h = 0x7e00
	case u >= 0x47800000:
		h = 0x7c00
	case u < 0x38800000:
		h = math.Float32bits(math.Float32frombits(u)+0.5) - math.Float32bits(0.5)
	default:
		h = (u - (127-15)<<23 + 0xfff + u>>13&1) >> 13
	}
	binary.LittleEndian.PutUint16(b, uint16(sign|h))
	return Half(b)
}

// nearest returns the integer in lo..hi nearest to x; ties go away from
// 0. It returns lo for a NaN.
func nearest(x float32, lo, hi int) int {
	r := math.Round(float64(x))
	switch {
	case r >= float64(hi):
		return hi
	case r > float64(lo):
		return int(r)
	}
	return lo
}

// notFinite reports whether x has a NaN or an infinity.
func notFinite(x []float32) bool {
	for _, v := range x {
		if v-v != 0 {
			return true
		}
	}
	return false
}
