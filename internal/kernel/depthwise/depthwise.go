// Package depthwise computes causal depthwise convolutions over the rows of a sequence, and their
// derivatives. Each channel has its own K weights, and with s the K-1 rows before the first one
// followed by the rows of the sequence,
//
//	z[t] = bias + Σ_j w[j] s[t+j],  y[t] = z[t] or SiLU(z[t])
//
// Rows are computed one after another, some channels at a time. The sums of these channels stay in the
// first-level cache, and the last K rows and the weights in the second-level cache, so that memory is
// read and written once.
package depthwise

import (
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// Block is a block of C channels with K weights each.
type Block[T kernel.Float] struct {
	K, C    int
	Weights []T // [K,C]
	Bias    []T // [C], nil for zeros
	SiLU    bool
}

// Rows are the channels of a block in the K-1 rows before a sequence and in its rows.
type Rows[T kernel.Float] struct{ State, Sequence kernel.Rows[T] }

// row returns n channels from c on of row i of both. The state has k-1 rows.
func (r *Rows[T]) row(k, i, c, n int) []T {
	x := r.Sequence
	if i -= k - 1; i < 0 {
		i, x = i+k-1, r.State
	}
	return x.X[i*x.Stride+c:][:n]
}

// inner is the number of channels of a row that are computed at a time, so that sums stay in the first-level cache.
const inner = 512

// sum sets z to the channels from c on of row t before its activation. The terms are added in the order of j.
func (b *Block[T]) sum(z []T, x *Rows[T], t, c int) {
	for j := range b.K {
		row, w := x.row(b.K, t+j, c, len(z)), b.Weights[j*b.C+c:][:len(z)]
		switch {
		case j > 0:
			vector.AddProduct(z, z, row, w)
		case b.Bias != nil:
			vector.AddProduct(z, b.Bias[c:], row, w)
		default:
			vector.Mul(z, row, w)
		}
	}
}

// Forward computes rows [from, to) of y. room is scratch memory.
func (b *Block[T]) Forward(x *Rows[T], from, to int, y kernel.Rows[T], room []T) {
	for t := from; t < to; t++ {
		for c := 0; c < b.C; c += inner {
			y := y.Row(t, b.C)[c:min(c+inner, b.C)]
			if !b.SiLU {
				b.sum(y, x, t, c)
				continue
			}
			z := room[:len(y)]
			b.sum(z, x, t, c)
			vector.SiLU(y, z)
		}
	}
}

// Last sets last, which may be the state of x, to the K-1 rows of x before row n of the sequence.
func (b *Block[T]) Last(x *Rows[T], n int, last kernel.Rows[T]) {
	for i := range b.K - 1 {
		copy(last.Row(i, b.C), x.row(b.K, n+i, 0, b.C))
	}
}

// summed is the number of rows whose gradients of weights are added in T, before they are added in float64.
const summed = 64

// Scratch returns the number of elements of scratch memory that Forward and Backward need.
func (b *Block[T]) Scratch() int { return (b.K+1)*b.C + inner }

// Backward computes dx, the cotangents of n rows and of the K-1 rows before these, from the cotangents of y and of
// Last. It adds the gradients of the weights [K,C], followed by the bias's [C] if there is one, to sums. Rows are
// computed from the last to the first, so that the cotangents of a sequence cut anywhere have the same bits.
func (b *Block[T]) Backward(x *Rows[T], n int, dy, dlast kernel.Rows[T], dx *Rows[T], sums []float64, room []T) {
	part := room[inner:][:len(sums)]
	clear(part)
	for i := range b.K - 1 {
		copy(dx.row(b.K, n+i, 0, b.C), dlast.Row(i, b.C))
	}
	for t := n - 1; t >= 0; t-- {
		for c := 0; c < b.C; c += inner {
			size := min(inner, b.C-c)
			dz, z := dy.Row(t, b.C)[c:][:size], room[:size]
			if b.SiLU {
				b.sum(z, x, t, c)
				vector.SiLUGrad(z, z, dz)
				dz = z
			}
			for j := range b.K {
				to, w, sum := dx.row(b.K, t+j, c, size), b.Weights[j*b.C+c:][:size], part[j*b.C+c:][:size]
				if j == 0 {
					vector.Mul(to, dz, w)
				} else {
					vector.AddProduct(to, to, dz, w)
				}
				vector.AddProduct(sum, sum, dz, x.row(b.K, t+j, c, size))
			}
			if b.Bias != nil {
				sum := part[b.K*b.C+c:][:size]
				vector.Add(sum, sum, dz)
			}
		}
		if t%summed == 0 {
			for i, p := range part {
				sums[i] += float64(p)
			}
			clear(part)
		}
	}
}
