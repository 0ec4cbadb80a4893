package quant

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// A block of iq2_xxs is d, followed by 8 bytes for each 32 elements: the numbers of
// 4 book entries, then 4 times 7 bits of signs, and 4 bits of s. Each 7 bits give
// the signs of 7 elements; the sign of the eighth makes the number of negative
// elements even.

// IQ2Grid returns the book: 256 vectors of 8 bytes, the first element in the lowest
// byte.
func IQ2Grid() *[256]uint64 { return &iq2Grid }

// IQ2Signs returns the 8 signs, one bit each, encoded by 7 bits.
func IQ2Signs(seven uint32) byte {
	s := byte(seven & 127)
	return s | byte(bits.OnesCount8(s)&1)<<7
}

func decodeIQ2(y []float32, b []byte) {
	d := Half(b)
	for g := range 8 {
		p := b[2+8*g:]
		signs := binary.LittleEndian.Uint32(p[4:])
		ds := d * (0.5 + float32(signs>>28)) * 0.25
		for l := range 4 {
			grid, s := iq2Grid[p[l]], IQ2Signs(signs>>(7*l))
			for i := range 8 {
				v := ds * float32(grid>>(8*i)&255)
				if s>>i&1 != 0 {
					v = -v
				}
				y[32*g+8*l+i] = v
			}
		}
	}
}

// encodeIQ2 picks the signs, then for each 32 elements a scale and the nearest book
// entries for it, then d and s, and finally the entries again for the rounded scales.
func encodeIQ2(b []byte, x []float32) {
	var scale [8]float32
	var sizes [256]float32
	for g := range scale {
		p := b[2+8*g:]
		signs := uint32(0)
		for l := range 4 {
			from, to := x[32*g+8*l:][:8], sizes[32*g+8*l:][:8]
			signs |= uint32(signsOf(to, from)) << (7 * l)
		}
		binary.LittleEndian.PutUint32(p[4:], signs)
		scale[g] = iq2Scale(sizes[32*g:][:32])
	}
	d := setHalf(b, largest(scale[:])*8/31)
	for g, s := range scale {
		p := b[2+8*g:]
		n := nearest((ratio(8*s, d)-1)/2, 0, 15)
		signs := binary.LittleEndian.Uint32(p[4:]) | uint32(n)<<28
		binary.LittleEndian.PutUint32(p[4:], signs)
		ds := d * (0.5 + float32(n)) * 0.25
		for l := range 4 {
			p[l], _ = nearestEntry(sizes[32*g+8*l:][:8], ds)
		}
	}
}

// signsOf sets sizes to |x|, returning the signs of the first 7 elements. If an odd
// number of elements of x is negative, the smallest size is negated to make that number
// even.
func signsOf(sizes, x []float32) byte {
	s, least := byte(0), 0
	for i, v := range x {
		sizes[i] = v
		if v < 0 {
			s |= 1 << i
			sizes[i] = -v
		}
		if sizes[i] < sizes[least] {
			least = i
		}
	}
	if bits.OnesCount8(s)&1 != 0 {
		s ^= 1 << least
		sizes[least] = -sizes[least]
	}
	return s & 127
}

// iq2Scale returns a scale for 32 sizes.
func iq2Scale(x []float32) float32 {
	top := largest(x)
	if top == 0 {
		return 0
	}
	best, least := float32(0), math.Inf(1)
	for _, size := range [...]float32{31, 37, 43, 49, 55, 61, 67, 25, 8} { // the largest of x, in units of the scale
		s := top / size
		sgx, sgg, sxx := 0.0, 0.0, 0.0
		for l := 0; l < 32; l += 8 {
			e, _ := nearestEntry(x[l:l+8], s)
			for i, v := range x[l : l+8] {
				q := float64(iq2Grid[e] >> (8 * i) & 255)
				sgx, sgg, sxx = sgx+float64(q*float64(v)), sgg+float64(q*q), sxx+float64(float64(v)*float64(v))
			}
		}
		if err := sxx - sgx*sgx/sgg; sgx > 0 && err < least {
			best, least = float32(sgx/sgg), err
		}
	}
	return best
}

// nearestEntry returns the entry with the vector that, multiplied by s, is nearest to x,
// and the squared distance.
func nearestEntry(x []float32, s float32) (byte, float32) {
	var cost [3][8]float32 // of each of the 3 sizes at each of the 8 places
	for k, size := range [3]float32{8, 25, 43} {
		for i, v := range x {
			e := float32(size*s) - v
			cost[k][i] = e * e
		}
	}
	best, least := 0, float32(math.Inf(1))
	for e, grid := range &iq2Grid {
		sum := float32(0)
		for i := range 8 {
			sum += cost[grid>>(8*i+4)&3][i] // 8, 25 and 43 have 0, 1 and 2 in their upper four bits
		}
		if sum < least {
			best, least = e, sum
		}
	}
	return byte(best), least
}
