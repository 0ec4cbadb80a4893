package kernel

import (
	"fmt"
	"unsafe"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/quant"
)

// QuantGemm sets y[i·yrs + j·ycs] to the product of row i of x, of m rows as
// QuantizeRows makes them one after another, and row j of w, of n rows of deep weights
// of type d.
//
// Products with weights in blocks are made of integers. A row of numbers x is
// rounded once to int8 blocks as long as those of the weights,
//
//	x[i] ≈ dx·q[i],  dx = max|x|/127,  q[i] the integer nearest to x[i]·(1/dx), ties to even,
//
// and then multiplied with as many rows of weights as there are. Per block, the
// sums over q and the integers of the weights are exact,
//
//	y = y + (d·dx)·s                 q8_0, q6_k, mxfp4, iq2_xxs
//	y = y + ((d·dx)·s - (m·dx)·t)    q4_k, q2_k
//
// with s the sum of the weights' scales and integers times q, t that of their
// offsets times q, both rounded to f32 once. Every product, difference and sum in
// these lines is rounded to f32, in the order of the blocks. For iq2_xxs dx is an
// eighth, and s has 2s+1 for scales.
//
// That is the contract: all kernels have these bits. An element of y depends on
// its row of x and its row of weights only.
//
// A block of x with a NaN or an infinity has the scale NaN, and so has y.
//
// It does not start goroutines: a caller splits rows, those of the weights first,
// since a call reads all of them, once for every 64 rows of x.
func QuantGemm(d graph.DType, m, n, deep int, x, w []byte, y []float32, yrs, ycs int) {
	k, _ := selection() // the error is Selected's to tell
	k.quant.multiply(d, m, n, deep, x, w, y, yrs, ycs)
}

// quantArgs is the argument of functions in assembly, which add blocks' products
// to out: of four rows of weights with x[0], or of w[0] with four rows of x. The
// generator knows the offsets of its fields.
type quantArgs struct {
	n    int // units: blocks of 256, or 4 blocks of 32; at least 1
	w, x [4]*byte
	out  [4]float32
	book *[256]uint64 // of iq2_xxs
	// Bytes from a row of weights to what is to be fetched meanwhile: a later
	// call's. Four rows are too short for the processor to see that they go on.
	ahead uintptr
}

// These do not compile if the offsets are others than in asm/quant.go
// and neon/quant.go.
const (
	_ = -(unsafe.Offsetof(quantArgs{}.w) ^ 8)
	_ = -(unsafe.Offsetof(quantArgs{}.x) ^ 40)
	_ = -(unsafe.Offsetof(quantArgs{}.out) ^ 72)
	_ = -(unsafe.Offsetof(quantArgs{}.book) ^ 88)
	_ = -(unsafe.Offsetof(quantArgs{}.ahead) ^ 96)
)

// quantSet is the functions of one instruction set, by type as quantIndex has
// them; nil where there are none. A nil set is that of the portable kernels.
type quantSet struct {
	// rows multiplies four rows of weights with one of x, columns the other way.
	rows, columns [quantTypes]func(*byte)
	// round rounds rows, but for a last part of 4 blocks of 32.
	round [quantTypes]func(*byte)
}

const quantTypes = 6

// quantAhead is at least how far ahead rows are fetched, in whole calls. Measured for
// rows of 2048 weights, on one core that reads 40 GB/s: 43 GB/s of q4_k, and 36 with
// half of it; 36 of q8_0, and as much with twice of it; 22 to 25 without.
const quantAhead = 8 << 10

func quantIndex(d graph.DType) int {
	if !d.IsBlock() {
		panic(fmt.Sprintf("kernel: element type %s is not in blocks", d))
	}
	return int(d - graph.Q8_0)
}

// quantFew is the number of rows of x from which on it pays to unpack a row of weights
// for four of them.
const quantFew = 3

// quantMost is how many rows of x are multiplied with all rows of weights before the
// next ones are: of 2048 elements they take 160 KiB of the second level cache.
const quantMost = 64

func (s *quantSet) multiply(d graph.DType, m, n, k int, x, w []byte, y []float32, yrs, ycs int) {
	if m <= 0 || n <= 0 {
		return
	}
	block, size := d.Block()
	xb, wb := QuantRow(d, k), k/block*size
	// Assembly does not check bounds.
	x, w = x[:m*xb], w[:n*wb]
	_ = y[(m-1)*yrs+(n-1)*ycs]
	t := quantIndex(d)
	units, rest := k/quantSuper, 0 // blocks of 32 behind the last group are for Go
	if block != quantSuper {
		units, rest = k/quantGroup, k%quantGroup/block
	}
	if s == nil || s.rows[t] == nil || units == 0 {
		for j := range n {
			for i := range m {
				y[i*yrs+j*ycs] = quantDot(d, 0, k/block, x[i*xb:], w[j*wb:])
			}
		}
		return
	}
	a := quantArgs{n: units, book: quant.IQ2Grid(), ahead: uintptr(roundUp(quantAhead, 4*max(wb, 1)))}
	arg := (*byte)(unsafe.Pointer(&a))
	finish := func(i, j int, sum float32) {
		if rest > 0 {
			done := units * quantGroup / block
			sum = quantRest(d, sum, done, done+rest, x[i*xb:], w[j*wb:])
		}
		y[i*yrs+j*ycs] = sum
	}
	if m >= quantFew && s.columns[t] != nil {
		for i0 := 0; i0 < m; i0 += quantMost {
			for j := range n {
				a.w[0] = &w[j*wb]
				for i := i0; i < min(i0+quantMost, m); i += 4 {
					for l := range a.x { // the last row again where there are fewer
						a.x[l] = &x[min(i+l, m-1)*xb]
					}
					a.out = [4]float32{}
					s.columns[t](arg)
					for l := range min(4, m-i) {
						finish(i+l, j, a.out[l])
					}
				}
			}
		}
		return
	}
	for j := 0; j < n; j += 4 {
		for l := range a.w {
			a.w[l] = &w[min(j+l, n-1)*wb]
		}
		for i := range m {
			a.x[0] = &x[i*xb]
			a.out = [4]float32{}
			s.rows[t](arg)
			for l := range min(4, n-j) {
				finish(i, j+l, a.out[l])
			}
		}
	}
}
