package quant

// A block of q4_0 is d and 16 bytes of elements: elements 0 to 15 are in the low
// halves, 16 to 31 in the high halves. q is stored with 8 added. In a block of q4_1 the
// smallest element m follows d, and nothing is added to q.

func unpackQ4(q *[32]byte, b []byte) (scale, offset float32) {
	for i := 0; i < 16; i += 8 {
		v := word(b[2+i:])
		setWord(q[i:], minus(v&(15*ones), 8*ones))
		setWord(q[16+i:], minus(v>>4&(15*ones), 8*ones))
	}
	return Half(b), noOffset()
}

func unpackQ41(q *[32]byte, b []byte) (scale, offset float32) {
	for i := 0; i < 16; i += 8 {
		v := word(b[4+i:])
		setWord(q[i:], v&(15*ones))
		setWord(q[16+i:], v>>4&(15*ones))
	}
	return Half(b), Half(b[2:])
}

func encodeQ4(b []byte, x []float32) {
	inverse := fromPeak(b, x, 8)
	for i, v := range x {
		b[2+i%16] |= byte(stepsUp(float32(v*inverse), 8, 15)) << (i / 16 * 4)
	}
}

func encodeQ41(b []byte, x []float32) {
	inverse, lo := fromRange(b, x, 15)
	for i, v := range x {
		b[4+i%16] |= byte(stepsUp(float32((v-lo)*inverse), 0, 15)) << (i / 16 * 4)
	}
}

// fromPeak writes the scale d mapping the element with the largest absolute value to
// -top, returning 1/d.
func fromPeak(b []byte, x []float32, top float32) (inverse float32) {
	peak := float32(0)
	for _, v := range x {
		if max(v, -v) > max(peak, -peak) {
			peak = v
		}
	}
	d := peak / -top
	setHalf(b, d)
	return ratio(1, d)
}

// fromRange writes the scale d and the smallest element; `top` steps of d cover the range
// from the smallest to the largest element. It returns 1/d and the smallest element.
func fromRange(b []byte, x []float32, top float32) (inverse, lo float32) {
	lo, hi := x[0], x[0]
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	d := (hi - lo) / top
	setHalf(b, d)
	setHalf(b[2:], lo)
	return ratio(1, d), lo
}

// stepsUp returns x + zero rounded to the nearest integer in 0..top, halves up, as in
// ggml. It returns 0 for a NaN, such as 0 times an infinite inverse.
func stepsUp(x, zero float32, top int) int {
	r := x + (zero + 0.5)
	switch {
	case r >= float32(top+1):
		return top
	case r > 0:
		return int(r)
	}
	return 0
}
