package gemm

import (
	"math"
	"unsafe"

	"github.com/gomoe/gomoe/array"
)

// flushed returns x, or a zero of its sign if x is below the normal numbers.
func flushed(x float32) float32 {
	if math.Abs(float64(x)) < 0x1p-126 {
		return float32(math.Copysign(0, float64(x)))
	}
	return x
}

// fusedFlushed returns s + x·y with one rounding, as instructions for bf16 compute it:
// arguments and results below the normal numbers are zeros.
func fusedFlushed(s float32, x, y array.Brain) float32 {
	return flushed(fma(flushed(x.Float32()), flushed(y.Float32()), flushed(s)))
}

// dotModel does what VDPBF16PS does to one sum.
func dotModel(s float32, x, y uint32) float32 {
	s = fusedFlushed(s, array.Brain(x>>16), array.Brain(y>>16))
	return fusedFlushed(s, array.Brain(x), array.Brain(y))
}

// tileModel does what TDPBF16PS does to one sum, with this number of pairs.
func tileModel(s float32, pairs int, at func(p int) (x, y uint32)) float32 {
	var even, odd float32
	for p := range pairs {
		x, y := at(p)
		even = fusedFlushed(even, array.Brain(x), array.Brain(y))
		odd = fusedFlushed(odd, array.Brain(x>>16), array.Brain(y>>16))
	}
	return flushed(flushed(s) + flushed(even+odd))
}

// word returns the 32 bits that lie this number of bytes behind p.
func word(p unsafe.Pointer, bytes int) *uint32 { return (*uint32)(unsafe.Add(p, bytes)) }

func number(p unsafe.Pointer, bytes int) *float32 { return (*float32)(unsafe.Add(p, bytes)) }

// modelTiles returns a set whose tiles are the models. It has the blocks and layouts of s,
// whose instructions the processor may lack.
func modelTiles(s *halfSet) *halfSet {
	m := *s
	m.name += " model"
	m.tile = func(rows, vecs int) (func(*byte), int) {
		switch {
		case s.squares && rows <= squareRows:
			rows = squareRows
		case s.squares:
			rows = 2 * squareRows
		case rows > 4:
			rows = 8
		case rows > 1:
			rows = 4
		}
		return func(t *byte) {
			w := (*halfWork)(unsafe.Pointer(t))
			if s.squares {
				w.squaresModel(rows, vecs)
			} else {
				w.pairsModel(rows, vecs)
			}
		}, rows
	}
	m.streams, m.round = [3]func(*byte){}, nil
	return &m
}

func (w *halfWork) pairsModel(rows, vecs int) {
	for i := range rows {
		for j := range vecs * pairLanes {
			s := float32(0)
			for p := range w.deep {
				s = dotModel(s, *word(w.a, 4*(p*rows+i)), *word(w.b, p*int(w.bstride)+4*j))
			}
			c := number(w.c, i*int(w.cstride)+4*j)
			if w.add == 0 {
				*c = 0
			}
			*c += s
		}
	}
}

func (w *halfWork) squaresModel(rows, vecs int) {
	for block := range w.blocks {
		for i := range rows {
			row := block*rows + i
			for j := range vecs * pairLanes {
				c := number(w.c, row*int(w.cstride)+4*j)
				if w.add == 0 {
					*c = 0
				}
				for q := range w.deep {
					*c = tileModel(*c, squarePairs, func(p int) (x, y uint32) {
						square := row/squareRows*int(w.sixteen) + q*int(w.squareStep)
						return *word(w.a, square+row%squareRows*int(w.rowStride)+4*p), *word(w.b, (squarePairs*q+p)*int(w.bstride)+4*j)
					})
				}
			}
		}
	}
}
