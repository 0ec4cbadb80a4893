package blocks

import (
	"encoding/binary"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/quant"
)

// quantDot returns the product of the blocks lo to hi-1 of a rounded row x and of a row
// of weights w. It is the reference for all kernels.
func quantDot(d graph.DType, lo, hi int, x, w []byte) float32 {
	if quant.HasGroups(d) {
		n, size := d.Block()
		groups := make([]quant.Group, ((hi-lo)*n+127)/128)
		quant.Unpack(groups, d, w[lo*size:hi*size])
		return groupsDot(0, x[lo*n/128*quantGroupRow:], groups)
	}
	return quantRest(d, 0, lo, hi, x, w)
}

// quantRest returns y plus the products of the blocks lo to hi-1, added in order.
func quantRest(d graph.DType, y float32, lo, hi int, x, w []byte) float32 {
	_, size := d.Block()
	for b := lo; b < hi; b++ {
		y = float32(y + quantBlock(d, b, x, w[b*size:][:size]))
	}
	return y
}

// quantBlock returns the contribution of block b to the product.
func quantBlock(d graph.DType, b int, x, w []byte) float32 {
	switch d {
	case graph.Q8_0, graph.MXFP4:
		g := x[b/4*quantGroupRow:]
		dx, q := float(g[quantGroupScale+b%4*4:]), g[b%4*32:][:32]
		scale, s := float32(0), int32(0)
		if d == graph.Q8_0 {
			scale, s = quant.Half(w), dotQ8(q, w[2:])
		} else {
			scale, s = quant.MXScale(w[0]), dotMX(q, w[1:])
		}
		return float32(float32(scale*dx) * float32(s))
	}
	u := x[b*quantSuperRow:][:quantSuperRow]
	dx := float(u[quantSuperScale:])
	switch d {
	case graph.Q4_K:
		s, t := dotQ4K(u, w)
		return offsetBlock(quant.Half(w), quant.Half(w[2:]), dx, s, t)
	case graph.Q2_K:
		s, t := dotQ2K(u, w)
		return offsetBlock(quant.Half(w[80:]), quant.Half(w[82:]), dx, s, t)
	case graph.Q6_K:
		return float32(float32(quant.Half(w[208:])*dx) * float32(dotQ6K(u, w)))
	}
	return float32(float32(quant.Half(w)*dx) * float32(dotIQ2(u, w)))
}

func offsetBlock(d, m, dx float32, s, t int32) float32 {
	return float32(float32(float32(d*dx)*float32(s)) - float32(float32(m*dx)*float32(t)))
}

func dotQ8(x, w []byte) (s int32) {
	for i, q := range w[:32] {
		s += int32(int8(x[i])) * int32(int8(q))
	}
	return s
}

func dotMX(x, w []byte) (s int32) {
	value := quant.MXValues()
	for i, q := range w[:16] {
		s += int32(int8(x[i]))*int32(value[q&15]) + int32(int8(x[i+16]))*int32(value[q>>4])
	}
	return s
}

// quads returns the elements 16j to 16j+15 of a unit with its parts of 32 in the type's
// order.
func quads(u []byte, order [8]int, j int) []byte {
	for place, k := range order {
		if k == j/2 {
			return u[32*place+j%2*16:][:16]
		}
	}
	return nil
}

func sumAt(u []byte, i int) int32 {
	return int32(int16(binary.LittleEndian.Uint16(u[quantSuperSums+2*i:])))
}

func dotQ4K(u, w []byte) (s, t int32) {
	order := quantOrder(graph.Q4_K)
	for j := range 8 {
		scale, offset := quant.Q4Scale(w[4:], j)
		sum := int32(0)
		for half := range 2 {
			for i, x := range quads(u, order, 2*j+half) {
				sum += int32(int8(x)) * int32(w[16+j/2*32+16*half+i]>>(j%2*4)&15)
			}
		}
		s += int32(scale) * sum
		t += int32(offset) * sumAt(u, j)
	}
	return s, t
}

func dotQ2K(u, w []byte) (s, t int32) {
	order := quantOrder(graph.Q2_K)
	for j := range 16 {
		sum := int32(0)
		for i, x := range quads(u, order, j) {
			sum += int32(int8(x)) * int32(w[16+j/8*32+j%2*16+i]>>(j%8/2*2)&3)
		}
		s += int32(w[j]&15) * sum
		t += int32(w[j]>>4) * sumAt(u, j)
	}
	return s, t
}

func dotQ6K(u, w []byte) (s int32) {
	for j := range 16 {
		sum := int32(0)
		part, k := j/8, j%8
		low, high := w[part*64+k%4*16:][:16], w[128+part*32+k%2*16:][:16]
		for i, x := range u[16*j:][:16] {
			q := int32(low[i]>>(k/4*4)&15|high[i]>>(k/2*2)&3<<4) - 32
			sum += int32(int8(x)) * q
		}
		s += int32(int8(w[192+j])) * sum
	}
	return s
}

func dotIQ2(u, w []byte) (s int32) {
	book := quant.IQ2Grid()
	for g := range 8 {
		p := w[2+8*g:]
		signs := binary.LittleEndian.Uint32(p[4:])
		sum := int32(0)
		for l := range 4 {
			grid, negative := book[p[l]], quant.IQ2Signs(signs>>(7*l))
			for i, x := range u[32*g+8*l:][:8] {
				v := int32(int8(x)) * int32(grid>>(8*i)&255)
				if negative>>i&1 != 0 {
					v = -v
				}
				sum += v
			}
		}
		s += int32(2*(signs>>28)+1) * sum
	}
	return s
}
