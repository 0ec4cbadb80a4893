package quant

// A block of q8_0 is d and 32 signed bytes.

func decodeQ8(y []float32, b []byte) {
	d := Half(b)
	for i, q := range b[2:34] {
		y[i] = d * float32(int8(q))
	}
}

func encodeQ8(b []byte, x []float32) {
	d := largest(x) / 127
	setHalf(b, d)
	if d == 0 {
		return
	}
	inverse := 1 / d // infinite for the smallest blocks, where d is 0 in f16
	for i, v := range x {
		b[2+i] = byte(int8(nearest(v*inverse, -127, 127)))
	}
}

// largest returns the largest |x|.
func largest(x []float32) float32 {
	m := float32(0)
	for _, v := range x {
		m = max(m, v, -v)
	}
	return m
}
