package quant

// A block of q6_k is 128 bytes with the low 4 bits of elements, 64 bytes with the high 2
// bits, 16 signed scales and d. Each 128 elements use 64 low bytes: elements 0 to 63 are
// in their low halves, 64 to 127 in their high halves. The 32 elements from 32k on have
// their high bits in bits 2k and 2k+1 of 32 bytes. q is stored with 32 added.

const (
	q6High  = 128
	q6Scale = 192
	q6D     = 208
)

// q6At returns the positions of the 16 elements from 16j on.
func q6At(j int) (low, lowShift, high, highShift int) {
	part, k := j/8, j%8
	return part*64 + k%4*16, k / 4 * 4, q6High + part*32 + k%2*16, k / 2 * 2
}

func decodeQ6K(y []float32, b []byte) {
	d := Half(b[q6D:])
	for j := range 16 {
		ds := d * float32(int8(b[q6Scale+j]))
		low, ls, high, hs := q6At(j)
		for i := range 16 {
			q := int(b[low+i]>>ls&15|b[high+i]>>hs&3<<4) - 32
			y[16*j+i] = ds * float32(q)
		}
	}
}

func encodeQ6K(b []byte, x []float32) {
	var s [16]float32
	peak := float32(0)
	for j := range s {
		s[j] = fitSigned(x[16*j:][:16], 32)
		if max(s[j], -s[j]) > max(peak, -peak) {
			peak = s[j]
		}
	}
	d := setHalf(b[q6D:], -peak/128)
	for j := range s {
		sj := nearest(ratio(s[j], d), -128, 127)
		b[q6Scale+j] = byte(int8(sj))
		ds := d * float32(sj)
		low, ls, high, hs := q6At(j)
		for i, v := range x[16*j:][:16] {
			q := byte(nearest(ratio(v, ds), -32, 31) + 32)
			b[low+i] |= q & 15 << ls
			b[high+i] |= q >> 4 << hs
		}
	}
}
