package quant

import (
	"encoding/binary"
	"math"
)

// A block of iq3_xxs is d, 64 bytes with the numbers of book entries for 4 elements
// each, and 4 bytes for each 32 elements: 4 times 7 bits of signs and 4 bits of s, as in
// iq2_xxs.

const iq3Sign = 66

// IQ3Grid returns the book: 256 vectors of 4 bytes, the first element in the lowest
// byte.
func IQ3Grid() *[256]uint32 { return &iq3Grid }

func unpackIQ3(g *[2]Group, b []byte) {
	d := Half(b)
	for j := range 8 {
		part, k := &g[j/4], j%4
		p, signs := b[2+8*j:][:8], binary.LittleEndian.Uint32(b[iq3Sign+4*j:])
		part.Scale[k], part.Offset[k] = d*(0.5+float32(signs>>28))*0.5, noOffset()
		for l := range 4 {
			sizes := uint64(iq3Grid[p[2*l]]) | uint64(iq3Grid[p[2*l+1]])<<32
			negative := bitBytes(IQ2Signs(signs >> (7 * l)))
			setWord(part.Q[32*k+8*l:], sizes^negative*255+negative) // -v is ^v + 1
		}
	}
}

// encodeIQ3 is encodeIQ2 with the other book.
func encodeIQ3(b []byte, x []float32) {
	var scale [8]float32
	var sizes [256]float32
	for g := range scale {
		signs := uint32(0)
		for l := range 4 {
			at := 32*g + 8*l
			signs |= uint32(signsOf(sizes[at:][:8], x[at:][:8])) << (7 * l)
		}
		binary.LittleEndian.PutUint32(b[iq3Sign+4*g:], signs)
		scale[g] = iq3Scale(sizes[32*g:][:32])
	}
	d := setHalf(b, largest(scale[:])*4/31)
	for g, s := range scale {
		n := nearest((ratio(4*s, d)-1)/2, 0, 15)
		p := b[iq3Sign+4*g:]
		binary.LittleEndian.PutUint32(p, binary.LittleEndian.Uint32(p)|uint32(n)<<28)
		ds := d * (0.5 + float32(n)) * 0.5
		for l := range 8 {
			b[2+8*g+l] = nearestIQ3(sizes[32*g+4*l:][:4], ds)
		}
	}
}

// iq3Scale returns a scale for 32 sizes.
func iq3Scale(x []float32) float32 {
	top := largest(x)
	if top == 0 {
		return 0
	}
	best, least := float32(0), math.Inf(1)
	for _, size := range [...]float32{44, 48, 52, 56, 60, 64, 68, 72, 36, 4} { // the largest of x, in units of the scale
		s := top / size
		sgx, sgg, sxx := 0.0, 0.0, 0.0
		for l := 0; l < 32; l += 4 {
			grid := iq3Grid[nearestIQ3(x[l:l+4], s)]
			for i, v := range x[l : l+4] {
				q := float64(grid >> (8 * i) & 255)
				sgx, sgg, sxx = sgx+float64(q*float64(v)), sgg+float64(q*q), sxx+float64(float64(v)*float64(v))
			}
		}
		if err := sxx - sgx*sgx/sgg; sgx > 0 && err < least {
			best, least = float32(sgx/sgg), err
		}
	}
	return best
}

// nearestIQ3 returns the entry with the vector that, multiplied by s, is nearest to x.
func nearestIQ3(x []float32, s float32) byte {
	var cost [8][4]float32 // of each of the 8 sizes at each of the 4 places
	for k, size := range [8]float32{4, 12, 20, 28, 36, 44, 52, 62} {
		for i, v := range x {
			e := float32(size*s) - v
			cost[k][i] = e * e
		}
	}
	best, least := 0, float32(math.Inf(1))
	for e, grid := range &iq3Grid {
		sum := float32(0)
		for i := range 4 {
			sum += cost[grid>>(8*i+3)&7][i] // bits 3 to 5 number the sizes
		}
		if sum < least {
			best, least = e, sum
		}
	}
	return byte(best)
}
