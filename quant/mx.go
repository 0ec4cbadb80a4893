package quant

import "math"

// A block of mxfp4 is e, followed by 16 bytes: elements 0 to 15 in the low halves, 16 to
// 31 in the high halves. Source: OCP Microscaling Formats (MX) specification 1.0. Here
// values are doubled and the scale is halved, making the values integers.

// MXValues returns the 16 values of an element, times 2.
func MXValues() [16]int8 {
	return [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
}

// MXScale returns 2^(e-128).
func MXScale(e byte) float32 {
	if e < 2 {
		return math.Float32frombits(0x00200000 << e)
	}
	return math.Float32frombits(uint32(e-1) << 23)
}

func decodeMX(y []float32, b []byte) {
	d, value := MXScale(b[0]), MXValues()
	for i, q := range b[1:17] {
		y[i] = d * float32(value[q&15])
		y[i+16] = d * float32(value[q>>4])
	}
}

func encodeMX(b []byte, x []float32) {
	top := largest(x)
	if top == 0 {
		return
	}
	_, exp := math.Frexp(float64(top)) // top is in [2^(exp-1), 2^exp), which is 4 to 6 times twice the scale
	b[0] = byte(min(max(exp-1-2+127, 0), 254))
	d, value := MXScale(b[0]), MXValues()
	pick := func(v float32) byte {
		best, least := 0, float32(math.Inf(1))
		for i, q := range value {
			if e := float32(math.Abs(float64(float32(d*float32(q)) - v))); e < least {
				best, least = i, e
			}
		}
		return byte(best)
	}
	for i := range 16 {
		b[1+i] = pick(x[i]) | pick(x[i+16])<<4
	}
}

// poisonMX fills the block with infinities: the format has no NaN for single
// elements.
func poisonMX(b []byte) {
	b[0] = 255
	for i := range b[1:] {
		b[1+i] = 0x77
	}
}
