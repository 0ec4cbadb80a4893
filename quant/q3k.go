package quant

// A block of q3_k is 32 bytes with the highest bits of elements, 64 bytes with the other
// two bits, 12 bytes with 16 scales s of 6 bits, and d. Bit j of the first 32 bytes is
// the highest bit of the elements 32j to 32j+31. The other bits are stored as in q2_k. q
// is stored with 4 added, and s with 32.

const (
	q3Low   = 32
	q3Scale = 96
	q3D     = 108
)

// q3Scales reads the scale of the 16 elements from 16j on.
func q3Scales(p []byte, j int) int {
	return int(p[j%8]>>(j/8*4)&15|p[8+j%4]>>(j/4*2)&3<<4) - 32
}

func setQ3Scale(p []byte, j, s int) {
	p[j%8] |= byte(s+32) & 15 << (j / 8 * 4)
	p[8+j%4] |= byte(s+32) >> 4 << (j / 4 * 2)
}

// q3Elements returns the elements 8i to 8i+7, with 4 added, as bytes.
func q3Elements(b []byte, i int) uint64 {
	j := i / 4 // of 32 elements
	low, high := word(b[q3Low+j/4*32+i%4*8:]), word(b[i%4*8:])
	return low>>(j%4*2)&(3*ones) | high>>j&ones<<2
}

func decodeQ3K(y []float32, b []byte) {
	d := Half(b[q3D:])
	for i := range 32 {
		ds, q := d*float32(q3Scales(b[q3Scale:], i/2)), q3Elements(b, i)
		for k := range 8 {
			y[8*i+k] = ds * float32(int(q>>(8*k)&7)-4)
		}
	}
}

// unpackQ3K multiplies the elements by their scales, because 32 elements of a group share
// one scale: -s·q is in -128..127, and its scale is -d.
func unpackQ3K(g *[2]Group, b []byte) {
	d := -Half(b[q3D:])
	for i := range 32 {
		part := &g[i/16]
		part.Scale[i/4%4], part.Offset[i/4%4] = d, noOffset()
		s := q3Scales(b[q3Scale:], i/2)
		v, four := q3Elements(b, i)*uint64(max(s, -s)), uint64(max(4*s, -4*s))*ones
		if s < 0 {
			v = minus(v, four)
		} else {
			v = minus(four, v)
		}
		setWord(part.Q[i%16*8:], v)
	}
}

func encodeQ3K(b []byte, x []float32) {
	var s [16]float32
	peak := float32(0)
	for j := range s {
		s[j] = fitSigned(x[16*j:][:16], 4)
		if max(s[j], -s[j]) > max(peak, -peak) {
			peak = s[j]
		}
	}
	d := setHalf(b[q3D:], -peak/32)
	for j := range s {
		sj := nearest(ratio(s[j], d), -32, 31)
		setQ3Scale(b[q3Scale:], j, sj)
		ds := d * float32(sj)
		for i, v := range x[16*j:][:16] {
			q := byte(nearest(ratio(v, ds), -4, 3) + 4)
			b[q3Low+j/8*32+j%2*16+i] |= q & 3 << (j % 8 / 2 * 2)
			b[j%2*16+i] |= q >> 2 << (j / 2)
		}
	}
}
