package quant

// A block of q5_k is a block of q4_k with 32 further bytes before the elements. Bit j of
// these bytes is the highest bit of the elements 32j to 32j+31.

const (
	q5High = 16
	q5Low  = 48
)

func unpackQ5K(g *[2]Group, b []byte) {
	d, m := Half(b), Half(b[2:])
	for j := range 8 {
		part, k := &g[j/4], j%4
		s, t := Q4Scale(b[4:], j)
		part.Scale[k], part.Offset[k] = d*float32(s), -(m * float32(t))
		for i := 0; i < 32; i += 8 {
			low, high := word(b[q5Low+j/2*32+i:]), word(b[q5High+i:])
			setWord(part.Q[32*k+i:], low>>(j%2*4)&(15*ones)|high>>j&ones<<4)
		}
	}
}

func encodeQ5K(b []byte, x []float32) {
	var s, t [8]float32
	for j := range s {
		s[j], t[j] = fit(x[32*j:][:32], 31)
	}
	d, m := setHalf(b, largest(s[:])/63), setHalf(b[2:], largest(t[:])/63)
	for j := range s {
		sj, tj := byte(nearest(ratio(s[j], d), 0, 63)), byte(nearest(ratio(t[j], m), 0, 63))
		setQ4Scale(b[4:], j, sj, tj)
		ds, mt := d*float32(sj), float32(m*float32(tj))
		for i, v := range x[32*j:][:32] {
			q := byte(nearest(ratio(v+mt, ds), 0, 31))
			b[q5Low+j/2*32+i] |= q & 15 << (j % 2 * 4)
			b[q5High+i] |= q >> 4 << j
		}
	}
}
