package quant

// A block of q5_0 is d, 4 bytes with the highest bit of each element, and the other
// bits of the elements as in q4_0. q is stored with 16 added. In a block of q5_1 the
// smallest element m follows d, and nothing is added to q.

func unpackQ5(q *[32]byte, b []byte) (scale, offset float32) {
	fiveBits(q, b[2:])
	for i := 0; i < 32; i += 8 {
		setWord(q[i:], minus(word(q[i:]), 16*ones))
	}
	return Half(b), noOffset()
}

func unpackQ51(q *[32]byte, b []byte) (scale, offset float32) {
	fiveBits(q, b[4:])
	return Half(b), Half(b[2:])
}

// fiveBits sets q to 32 numbers of 5 bits. The bytes p are 4 with their highest bits,
// followed by 16 with the others.
func fiveBits(q *[32]byte, p []byte) {
	for i := 0; i < 16; i += 8 {
		v := word(p[4+i:])
		setWord(q[i:], v&(15*ones)|bitBytes(p[i/8])<<4)
		setWord(q[16+i:], v>>4&(15*ones)|bitBytes(p[2+i/8])<<4)
	}
}

// setFiveBits is the inverse of fiveBits for element i. The bytes p must be zeros before
// the first call.
func setFiveBits(p []byte, i, q int) {
	p[i/8] |= byte(q>>4) << (i % 8)
	p[4+i%16] |= byte(q&15) << (i / 16 * 4)
}

func encodeQ5(b []byte, x []float32) {
	inverse := fromPeak(b, x, 16)
	for i, v := range x {
		setFiveBits(b[2:], i, stepsUp(float32(v*inverse), 16, 31))
	}
}

func encodeQ51(b []byte, x []float32) {
	inverse, lo := fromRange(b, x, 31)
	for i, v := range x {
		setFiveBits(b[4:], i, stepsUp(float32((v-lo)*inverse), 0, 31))
	}
}
