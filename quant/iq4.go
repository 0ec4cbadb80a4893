package quant

import "encoding/binary"

// A block of iq4_nl is d and 16 bytes with the numbers of 32 values, in the order of
// q4_0. A block of iq4_xs is d, 2 bytes with the 2 high bits and 4 bytes with the 4 low
// bits of 8 scales s, and 8 times 16 bytes with the numbers of values. s is stored with
// 32 added.

// IQ4Values returns the 16 values of an element.
func IQ4Values() [16]int8 {
	return [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
}

func unpackIQ4NL(q *[32]byte, b []byte) (scale, offset float32) {
	look(q, b[2:])
	return Half(b), noOffset()
}

// look sets q to the 32 values with the numbers in the 16 bytes p.
func look(q *[32]byte, p []byte) {
	value := IQ4Values()
	for i, n := range p[:16] {
		q[i], q[16+i] = byte(value[n&15]), byte(value[n>>4])
	}
}

func iq4Scale(b []byte, j int) int {
	return int(b[4+j/2]>>(j%2*4)&15|byte(binary.LittleEndian.Uint16(b[2:])>>(2*j))&3<<4) - 32
}

func setIQ4Scale(b []byte, j, s int) {
	b[4+j/2] |= byte(s+32) & 15 << (j % 2 * 4)
	b[2+j/4] |= byte(s+32) >> 4 << (j % 4 * 2)
}

func unpackIQ4XS(g *[2]Group, b []byte) {
	d := Half(b)
	for j := range 8 {
		part, k := &g[j/4], j%4
		look((*[32]byte)(part.Q[32*k:]), b[8+16*j:])
		part.Scale[k], part.Offset[k] = d*float32(iq4Scale(b, j)), noOffset()
	}
}

func encodeIQ4NL(b []byte, x []float32) {
	encodeIQ4(b[2:], x, setHalf(b, iq4Fit(x)))
}

// encodeIQ4 writes the numbers of the values that, multiplied by d, are nearest to x.
func encodeIQ4(p []byte, x []float32, d float32) {
	value := IQ4Values()
	inverse := ratio(1, d)
	for i, v := range x {
		p[i%16] |= byte(nearestValue(&value, float32(v*inverse))) << (i / 16 * 4)
	}
}

func encodeIQ4XS(b []byte, x []float32) {
	var s [8]float32
	peak := float32(0)
	for j := range s {
		s[j] = iq4Fit(x[32*j:][:32])
		if max(s[j], -s[j]) > max(peak, -peak) {
			peak = s[j]
		}
	}
	d := setHalf(b, -peak/32)
	for j := range s {
		n := nearest(ratio(s[j], d), -32, 31)
		setIQ4Scale(b, j, n)
		encodeIQ4(b[8+16*j:], x[32*j:][:32], d*float32(n))
	}
}

// iq4Fit returns a scale for 32 elements. It tries some scales that put the element with
// the largest absolute value near the first or near the last value.
func iq4Fit(x []float32) float32 {
	value := IQ4Values()
	peak := float32(0)
	for _, v := range x {
		if max(v, -v) > max(peak, -peak) {
			peak = v
		}
	}
	if peak == 0 {
		return 0
	}
	best, s := -1.0, peak/-127
	for step := -7; step <= 7; step++ {
		for _, end := range [2]float32{-127, 113} {
			inverse := (end + float32(step)) / peak
			svx, svv := 0.0, 0.0
			for _, v := range x {
				q := float64(value[nearestValue(&value, float32(v*inverse))])
				svx, svv = svx+float64(q*float64(v)), svv+float64(q*q)
			}
			if svx*svx > best*svv { // the error is Σx² - svx²/svv
				best, s = svx*svx/svv, float32(svx/svv)
			}
		}
	}
	return s
}

// nearestValue returns the number of the value nearest to x, and 0 for a NaN.
func nearestValue(value *[16]int8, x float32) int {
	n := 0
	for half := 8; half > 0; half /= 2 {
		if i := n + half; float32(2*x) > float32(int(value[i-1])+int(value[i])) {
			n = i
		}
	}
	return n
}
