package quant

// A block of q4_k is d, m, 12 bytes with 8 scales s and 8 offsets t of 6 bits each,
// and 128 bytes of elements. Each 32 of these bytes hold elements 64c to 64c+31 in
// the low halves and 64c+32 to 64c+63 in the high halves.

// Q4Scale reads the scale and the offset of the 32 elements from 32j on.
func Q4Scale(p []byte, j int) (s, t byte) {
	if j < 4 {
		return p[j] & 63, p[j+4] & 63
	}
	return p[j+4]&15 | p[j-4]>>6<<4, p[j+4]>>4 | p[j]>>6<<4
}

// setQ4Scale is the inverse of Q4Scale. The bytes of p must be zeros before the
// first call.
func setQ4Scale(p []byte, j int, s, t byte) {
	if j < 4 {
		p[j] |= s
		p[j+4] |= t
		return
	}
	p[j+4] = s&15 | t<<4
	p[j-4] |= s >> 4 << 6
	p[j] |= t >> 4 << 6
}

func decodeQ4K(y []float32, b []byte) {
	d, m := Half(b), Half(b[2:])
	for j := range 8 {
		s, t := Q4Scale(b[4:], j)
		ds, mt := d*float32(s), float32(m*float32(t))
		for i, q := range b[16+j/2*32:][:32] {
			y[32*j+i] = float32(ds*float32(q>>(j%2*4)&15)) - mt
		}
	}
}

func encodeQ4K(b []byte, x []float32) {
	var s, t [8]float32
	for j := range s {
		s[j], t[j] = fit(x[32*j:][:32], 15)
	}
	d, m := setHalf(b, largest(s[:])/63), setHalf(b[2:], largest(t[:])/63)
	for j := range s {
		sj, tj := byte(nearest(ratio(s[j], d), 0, 63)), byte(nearest(ratio(t[j], m), 0, 63))
		setQ4Scale(b[4:], j, sj, tj)
		ds, mt := d*float32(sj), float32(m*float32(tj))
		for i, v := range x[32*j:][:32] {
			b[16+j/2*32+i] |= byte(nearest(ratio(v+mt, ds), 0, 15)) << (j % 2 * 4)
		}
	}
}
