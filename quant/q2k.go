package quant

// A block of q2_k is 16 bytes with the scales s in their low halves and the offsets t in
// their high halves, then 64 bytes with the elements, then d and m. Each 128 elements
// take 32 bytes: the 32 elements from 32k on are in bits 2k and 2k+1 of these bytes.

const (
	q2Q = 16
	q2D = 80
)

func decodeQ2K(y []float32, b []byte) {
	d, m := Half(b[q2D:]), Half(b[q2D+2:])
	for j := range 16 {
		ds, mt := d*float32(b[j]&15), float32(m*float32(b[j]>>4))
		for i, q := range b[q2Q+j/8*32+j%2*16:][:16] {
			y[16*j+i] = float32(ds*float32(q>>(j%8/2*2)&3)) - mt
		}
	}
}

func encodeQ2K(b []byte, x []float32) {
	var s, t [16]float32
	for j := range s {
		s[j], t[j] = fit(x[16*j:][:16], 3)
	}
	d, m := setHalf(b[q2D:], largest(s[:])/15), setHalf(b[q2D+2:], largest(t[:])/15)
	for j := range s {
		sj, tj := nearest(ratio(s[j], d), 0, 15), nearest(ratio(t[j], m), 0, 15)
		b[j] = byte(sj | tj<<4)
		ds, mt := d*float32(sj), float32(m*float32(tj))
		for i, v := range x[16*j:][:16] {
			b[q2Q+j/8*32+j%2*16+i] |= byte(nearest(ratio(v+mt, ds), 0, 3)) << (j % 8 / 2 * 2)
		}
	}
}
