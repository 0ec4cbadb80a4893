package attention

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// This file has attention of few queries that attend to the same keys, such as the
// queries of a token while decoding. A query in each lane would leave most lanes empty.
// So scores are computed with a key in each lane, reading keys in place, and the sums of
// values with an element in each lane. Every score, power and sum is computed in the
// order of attention in lanes, and has the same bits.

// fewMost is the largest number of queries for this file. With more, lanes of queries are
// as fast.
const fewMost = 8

// fewSet holds the functions of one instruction set: scores by the logarithm of the
// number of queries, values by that and by the logarithm of the number of vectors.
type fewSet struct {
	scores [4]func(*byte)
	powers func(*byte)
	values [3][4]func(*byte)
	// The logarithms of the largest numbers of queries and of vectors of sums for which
	// values has functions.
	rows, sums int
}

// fewWork is the argument of these functions. Strides are in bytes.
type fewWork struct {
	groups  int // of 16 keys
	k       unsafe.Pointer
	kstride uintptr
	deep    int            // the elements of a key, in fours
	q       unsafe.Pointer // [elements, rows of scores]
	p       unsafe.Pointer
	pstride uintptr
	rows    int
	keys    int
	v       unsafe.Pointer
	vstride uintptr
	c       unsafe.Pointer
	cstride uintptr
	first   int // the first query to weigh values
	// Per query: the largest score so far, the scaling factor of the sums so far, and the
	// sum of the powers of a block.
	top, keep, total [fewMost]float32
}

// These lines compile only if the offsets match asm/attention_few.go.
const (
	_ = -(unsafe.Offsetof(fewWork{}.rows) ^ 56)
	_ = -(unsafe.Offsetof(fewWork{}.first) ^ 104)
	_ = -(unsafe.Offsetof(fewWork{}.total) ^ 176)
)

// fewRows returns the number of rows of scores for n queries, or 0 if lanes are queries:
// if there are more than few, if they may attend to different keys, or if rows do not
// fill vectors.
func fewRows(a Attention[float32], n int) int {
	if n > fewMost || n > 1 && (a.Causal || a.Window > 0) || a.D%kernel.Lanes != 0 || a.V%kernel.Lanes != 0 {
		return 0
	}
	return 1 << bits.Len(uint(n-1))
}

// takeFew is take for few queries.
func (w *lanes) takeFew(b laneBlock) {
	kernel.Take(w.dry, &w.qt, b.D*b.few)
	kernel.Take(w.dry, &w.sums, b.n*b.V)
	kernel.Take(w.dry, &w.whole, b.n*b.V)
	kernel.Take(w.dry, &w.p, b.few*laneKeys)
	kernel.Take(w.dry, &w.k, laneKeys*b.D)
	kernel.Take(w.dry, &w.v, laneKeys*b.V)
}

// fewQueries is queries for few queries.
func (w *lanes) fewQueries(b laneBlock, q kernel.Rows[float32]) {
	qt := w.qt[:b.D*b.few]
	for i := range b.n {
		for d, x := range q.Row(b.first+i, b.D) {
			qt[d*b.few+i] = b.Scale * x
		}
	}
}

// fewSpan is spanOf for few queries.
func (w *lanes) fewSpan(b laneBlock, k, v kernel.Rows[float32], kept *[2]Stored, bias kernel.Rows[float32], k0 int) sums[float32] {
	x := b.sums(w.spanTop[:], w.spanTotal[:], w.sums)
	clear(x.values)
	s := &w.few
	for i := range b.n {
		s.top[i], x.total[i] = float32(math.Inf(-1)), 0
	}
	end := min((k0+1)*span, b.keys())
	for j, to := max(b.since(b.first), k0*span, 0), 0; j < end; j = to {
		to = min((j/laneKeys+1)*laneKeys, end)
		w.fewBlock(b, k, v, kept, bias, j, to-j, x)
	}
	copy(x.top[:b.n], s.top[:])
	w.few = fewWork{} // keeps no caller's memory alive
	return x
}

// fewBlock adds the n keys from j on, all of one block, to x, except their largest scores.
func (w *lanes) fewBlock(b laneBlock, k, v kernel.Rows[float32], kept *[2]Stored, bias kernel.Rows[float32], j, n int, x sums[float32]) {
	s, p, whole := &w.few, w.p[:b.few*laneKeys], n&^(kernel.Lanes-1)
	s.q, s.pstride, s.deep, s.rows, s.keys = at(w.qt, 0), 4*laneKeys, b.D/4, b.n, n
	if kept[0].some() {
		kept[0].rows(w.k, b.D, j, n, b.D)
		kept[1].rows(w.v, b.V, j, n, b.V)
		w.fewScores(b, kernel.Rows[float32]{X: w.k[:laneKeys*b.D], Stride: b.D}, p, kernel.RoundUp(n, kernel.Lanes))
		v = kernel.Rows[float32]{X: w.v, Stride: b.V}
	} else {
		v = v.From(j)
		w.fewScores(b, k.From(j), p, whole)
		if whole < n { // the last group is copied to whole rows
			for i := whole; i < n; i++ {
				copy(w.k[(i-whole)*b.D:][:b.D], k.Row(j+i, b.D))
			}
			w.fewScores(b, kernel.Rows[float32]{X: w.k[:kernel.Lanes*b.D], Stride: b.D}, p[whole:], kernel.Lanes)
		}
	}
	w.fewAdjust(b, p, bias, j, n)
	s.groups, s.p = (n+kernel.Lanes-1)/kernel.Lanes, at(p, 0)
	for i := range b.n {
		for l := n; l < s.groups*kernel.Lanes; l++ {
			p[i*laneKeys+l] = float32(math.Inf(-1))
		}
	}
	w.set.few.powers((*byte)(unsafe.Pointer(s)))
	w.fewValues(b, p, v.X, v.Stride, n, x.values)
	for i := range b.n {
		x.total[i] = float32(x.total[i]*s.keep[i]) + s.total[i]
	}
}

// fewScores sets the rows of p to the products of all queries with n keys, whole groups of 16.
func (w *lanes) fewScores(b laneBlock, k kernel.Rows[float32], p []float32, n int) {
	if n == 0 {
		return
	}
	_, _ = k.X[(n-1)*k.Stride+b.D-1], p[(b.few-1)*laneKeys+n-1] // assembly does not check bounds
	s := &w.few
	s.groups, s.k, s.kstride, s.p = n/kernel.Lanes, at(k.X, 0), uintptr(4*k.Stride), at(p, 0)
	w.set.few.scores[bits.Len(uint(b.few))-1]((*byte)(unsafe.Pointer(s)))
}

// fewAdjust is adjust for few queries.
func (w *lanes) fewAdjust(b laneBlock, p []float32, bias kernel.Rows[float32], j, n int) {
	for i := range b.n {
		row := p[i*laneKeys:][:n]
		if b.Cap != 0 {
			vector.Scale(w.vec, row, 1/b.Cap)
			vector.Tanh(row, row)
			vector.Scale(w.vec, row, b.Cap)
		}
		if len(bias.X) > 0 {
			for r, x := range bias.From(b.first + i).X[j:][:n] {
				row[r] += x
			}
		}
	}
}

// fewValues scales the rows of c by keep, adding the values of n keys, weighted by p. It
// sets total.
func (w *lanes) fewValues(b laneBlock, p, v []float32, stride, n int, c []float32) {
	_, _, _ = v[(n-1)*stride+b.V-1], p[(b.n-1)*laneKeys+n-1], c[b.n*b.V-1]
	s, f := &w.few, &w.set.few
	s.vstride, s.cstride = uintptr(4*stride), uintptr(4*b.V)
	for i := 0; i < b.n; {
		rows := min(bits.Len(uint(b.n-i))-1, f.rows)
		s.first = i
		for d := 0; d < b.V; {
			vecs := min(bits.Len(uint((b.V-d)/w.set.width))-1, f.sums-rows, 3)
			s.p, s.v, s.c = at(p, i*laneKeys), at(v, d), at(c, i*b.V+d)
			f.values[rows][vecs]((*byte)(unsafe.Pointer(s)))
			d += w.set.width << vecs
		}
		i += 1 << rows
	}
}
