package attention

import (
	"math"
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// Attention is scaled dot-product attention of one head, with S queries and as
// many keys and values, of D elements each:
//
//	out[i] = Σ_j p[i,j] v[j],   p[i,j] = exp(Scale q[i]·k[j] - lse[i]),   lse[i] = log Σ_j exp(Scale q[i]·k[j])
//
// where j runs over all keys or, if Causal is set, over those up to i. Scores exist
// only for a block of queries and keys at a time, never for S by S. Beside its
// arguments a head takes memory for 2·S·D elements, and for 4·S·D with Backward. Attend
// returns the Attender of a head of keys and values.
//
// Sources: Milakov and Gimelshein, "Online normalizer calculation for softmax"
// (2018); Dao and others, "FlashAttention" (2022).
type Attention[T kernel.Float] struct {
	S, D   int
	Scale  T
	Causal bool
}

// Rows are the rows of one head: row i is X[i*Stride:][:D].
type Rows[T kernel.Float] struct {
	X      []T
	Stride int
}

// HeadOf returns the rows of head n of sequence b in x[B,s,heads,d].
func HeadOf[T kernel.Float](x []T, b, n, s, heads, d int) Rows[T] {
	if s == 0 {
		return Rows[T]{nil, heads * d}
	}
	return Rows[T]{kernel.From(x, (b*s*heads+n)*d), heads * d}
}

func (r Rows[T]) from(i int) []T   { return kernel.From(r.X, i*r.Stride) }
func (r Rows[T]) row(i, d int) []T { return r.X[i*r.Stride:][:d] }

func (r Rows[T]) float32s() Rows[float32] { return Rows[float32]{kernel.Float32s(r.X), r.Stride} }

// partUnit divides the first query of every part: it is a multiple of the blocks of
// queries of all kernels.
const partUnit = 192

// Parts returns the number of parts, up to 4, into which the queries are cut for work in
// parallel. It depends on S alone, and so do the sums that Backward forms.
func (a Attention[T]) Parts() int { return min(max(a.S/partUnit, 1), 4) }

// Part returns the queries of part n, of equal work.
func (a Attention[T]) Part(n int) (from, to int) { return a.cut(n), a.cut(n + 1) }

func (a Attention[T]) cut(n int) int {
	share := float64(n) / float64(a.Parts())
	if a.Causal {
		share = math.Sqrt(share) // of a triangle
	}
	switch n {
	case 0:
		return 0
	case a.Parts():
		return a.S
	}
	units := int(share*float64(a.S)/partUnit + 0.5)
	return min(max(units, n), a.S/partUnit-(a.Parts()-n)) * partUnit // no part is empty
}

// Attender is attention to one head of keys and values. It is for one goroutine.
type Attender[T kernel.Float] struct {
	Attention[T]
	dry   *kernel.Dry // nil in a real run
	k, v  Rows[T]
	keys  int // up to which the last Backward made dk and dv
	lanes lanes
	block blocks[T]
}

// One pool per element type, as a package variable cannot have a type parameter.
var attenders32, attenders64 sync.Pool

func attenders[T kernel.Float]() *sync.Pool {
	if unsafe.Sizeof(T(0)) == 4 {
		return &attenders32
	}
	return &attenders64
}

// Attend returns attention to k and v, which may be used until it is released.
// Its memory comes from others that were released. In a dry run the Attender counts the
// memory that its methods take, and computes nothing.
func (a Attention[T]) Attend(dry *kernel.Dry, k, v Rows[T]) *Attender[T] {
	return a.attend(dry, kernel.VectorsOf[T](), k, v)
}

func (a Attention[T]) attend(dry *kernel.Dry, vec kernel.Kind, k, v Rows[T]) *Attender[T] {
	var h *Attender[T]
	if dry != nil {
		h = kernel.Space[Attender[T]](dry)
	} else if kept, ok := attenders[T]().Get().(*Attender[T]); ok {
		h = kept
	} else {
		h = new(Attender[T])
	}
	h.Attention, h.dry, h.k, h.v, h.keys = a, dry, k, v, 0
	h.block.vec, h.block.work.Dry, h.lanes.dry = vec, dry, dry
	if a.D == 0 || vec != kernel.AVX2 && vec != kernel.AVX512 {
		vec = kernel.Portable // no rows to run over, or no products for them in lanes
	}
	h.lanes.begin(vec)
	return h
}

// Release gives the memory back for use by other Attenders.
func (h *Attender[T]) Release() {
	h.k, h.v = Rows[T]{}, Rows[T]{} // the pool keeps no caller's memory alive
	if h.dry == nil {
		attenders[T]().Put(h)
	}
}

// Forward sets out[i] and lse[i] for from ≤ i < to; from is 0 or where a part
// begins. Row i of both depends on q[i] and on the keys and values that it attends
// to, not on others, also not if these are NaN, nor on from and to. A row whose
// scores are all -Inf is NaN.
//
// Blocks of keys start at multiples of 96 in vectors of float32, and of 64 in other
// kernels, and each is added in order: the sum of its powers, made upwards, and
// then the sum of what these weigh, both after what was there has been
// scaled down to the largest score so far. Vectors scale q before it is multiplied,
// the others the scores.
func (h *Attender[T]) Forward(q, out Rows[T], lse []T, from, to int) {
	if h.lanes.vec == kernel.Portable {
		h.block.forward(h, q, out, lse, from, to)
		return
	}
	h.lanes.forward(h.float32s(), h.k.float32s(), h.v.float32s(), q.float32s(), out.float32s(), kernel.Float32s(lse), from, to)
}

// Backward sets dq[i] for from ≤ i < to, and keeps the parts of dk and dv that come
// from these queries for AddTo, given what Forward made of q, k and v, and the
// cotangents dout of out and dlse of lse, nil for zero. It computes the scores again:
//
//	dv[j] = Σ_i p[i,j] dout[i]
//	ds[i,j] = Scale p[i,j] (dout[i]·v[j] - dout[i]·out[i] + dlse[i])
//	dq[i] = Σ_j ds[i,j] k[j],   dk[j] = Σ_i ds[i,j] q[i]
//
// Sums run upwards in blocks of 96 queries and keys in vectors of float32, and of 64
// in other kernels.
func (h *Attender[T]) Backward(q, out Rows[T], lse []T, dout Rows[T], dlse []T, dq Rows[T], from, to int) {
	switch h.keys = h.S; {
	case from >= to:
		h.keys = 0
		return
	case h.Causal:
		h.keys = to
	}
	if h.lanes.vec == kernel.Portable {
		h.block.backward(h, q, out, lse, dout, dlse, dq, from, to)
		return
	}
	h.lanes.backward(h.float32s(), h.k.float32s(), h.v.float32s(), q.float32s(), out.float32s(), kernel.Float32s(lse),
		dout.float32s(), kernel.Float32s(dlse), dq.float32s(), from, to)
}

// AddTo adds what Backward has kept to dk and dv or, if first is set, sets these.
// Where several parts, or heads of queries that share one of keys, are added up,
// the caller does it in order, whichever was ready first.
func (h *Attender[T]) AddTo(dk, dv Rows[T], first bool) {
	if first {
		for j := range h.dry.Times(h.S) {
			clear(dk.row(j, h.D))
			clear(dv.row(j, h.D))
		}
	}
	if h.dry != nil {
		return
	}
	if h.lanes.vec == kernel.Portable {
		h.block.addTo(h, dk, dv)
		return
	}
	h.lanes.addTo(h.D, h.keys, dk.float32s(), dv.float32s())
}

func (h *Attender[T]) float32s() Attention[float32] {
	return Attention[float32]{h.S, h.D, float32(h.Scale), h.Causal}
}

// Forward is Attender's for all queries.
func (a Attention[T]) Forward(q, k, v, out Rows[T], lse []T) {
	h := a.Attend(nil, k, v)
	defer h.Release()
	h.Forward(q, out, lse, 0, a.S)
}

// Backward is Attender's for all queries, part by part, and adds to dk and dv or, if first is
// set, sets these.
func (a Attention[T]) Backward(q, k, v, out Rows[T], lse []T, dout Rows[T], dlse []T, dq, dk, dv Rows[T], first bool) {
	h := a.Attend(nil, k, v)
	defer h.Release()
	for n := range a.Parts() {
		from, to := a.Part(n)
		h.Backward(q, out, lse, dout, dlse, dq, from, to)
		h.AddTo(dk, dv, first && n == 0)
	}
}

// Work returns the number of scores.
func (a Attention[T]) Work() int {
	if a.Causal {
		return a.S * (a.S + 1) / 2
	}
	return a.S * a.S
}

// RowAt returns the query from which on there is more than so much work before it, to the
// next 64: queries from RowAt(x) to RowAt(y) have about y - x of it, and 0 and Work() are
// the ends.
func (a Attention[T]) RowAt(work int) int {
	switch {
	case work >= a.Work():
		return a.S
	case a.Causal:
		return min(int(float64(math.Sqrt(2*float64(work))/attentionBlock)+0.5)*attentionBlock, a.S)
	}
	return min(int(float64(float64(work)/float64(a.S)/attentionBlock)+0.5)*attentionBlock, a.S)
}
