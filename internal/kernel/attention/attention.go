package attention

import (
	"math"
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// Attention is scaled dot-product attention of one head, with S queries, S keys and S
// values of D elements each:
//
//	out[i] = Σ_j p[i,j] v[j],   p[i,j] = exp(Scale q[i]·k[j] - lse[i]),   lse[i] = log Σ_j exp(Scale q[i]·k[j])
//
// where j runs over all keys or, if Causal is set, over those up to i. Scores exist
// only for a block of queries and keys at a time, never for S by S. Besides its arguments
// a head takes memory for up to about 2·S·D elements, and up to 4·S·D with Backward; see
// Need. Attend returns an Attender, which does the work for one head of keys and values.
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

// Every part begins at a multiple of partUnit, which is a multiple of the blocks of queries
// of all kernels.
const partUnit = 192

// Parts returns the number of parts, up to 4, into which the queries are cut for parallel
// work. It depends on S alone, so that the order of Backward's sums does too.
func (a Attention[T]) Parts() int { return min(max(a.S/partUnit, 1), 4) }

// Part returns the queries from `from` to to-1 of part n. Parts have about equal work.
func (a Attention[T]) Part(n int) (from, to int) { return a.cut(n), a.cut(n + 1) }

func (a Attention[T]) cut(n int) int {
	share := float64(n) / float64(a.Parts())
	if a.Causal {
		share = math.Sqrt(share) // the work before a query is a triangle
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
	keys  int // the last Backward computed dk and dv of the keys before this one
	lanes lanes
	block blocks[T]
}

// There is a pool for each element type, as a package variable cannot have a type parameter.
var attenders32, attenders64 sync.Pool

func attenders[T kernel.Float]() *sync.Pool {
	if unsafe.Sizeof(T(0)) == 4 {
		return &attenders32
	}
	return &attenders64
}

// Attend returns an Attender for k and v, which it reads until it is released. It reuses
// the memory of Attenders that were released.
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
		vec = kernel.Portable // rows are empty, or these kernels do not work in lanes
	}
	h.lanes.begin(vec)
	return h
}

// Release lets other Attenders use the memory. h may not be used afterwards.
func (h *Attender[T]) Release() {
	h.k, h.v = Rows[T]{}, Rows[T]{} // the pool keeps no caller's memory alive
	if h.dry == nil {
		attenders[T]().Put(h)
	}
}

// Forward sets out[i] and lse[i] for from ≤ i < to. from is 0, the first query of a part, or
// a result of RowAt. Row i of both depends only on q[i] and on the keys and values that
// query i attends to: not on others, even if these are NaN, and not on from and to. A row
// whose scores are all -Inf is NaN.
//
// Blocks of keys begin at multiples of 96 where float32 is computed in lanes, with avx2 and
// avx512, and at multiples of 64 elsewhere. Blocks are added in order. For each block, what
// was added before is first scaled to the largest score so far. Then the sum of the
// block's powers is added to the total, and the sum of the values that these weigh to
// the row. Powers and values are added from the first key to the last. In lanes q is
// scaled before it is multiplied, elsewhere the scores are scaled.
func (h *Attender[T]) Forward(q, out Rows[T], lse []T, from, to int) {
	if h.lanes.vec == kernel.Portable {
		h.block.forward(h, q, out, lse, from, to)
		return
	}
	h.lanes.forward(h.float32s(), h.k.float32s(), h.v.float32s(), q.float32s(), out.float32s(), kernel.Float32s(lse), from, to)
}

// Backward sets dq[i] for from ≤ i < to, where from is as in Forward. It keeps the parts of
// dk and dv that come from these queries, for AddTo. out and lse are Forward's results for
// q; dout and dlse are the cotangents of out and lse, where a nil dlse means zero. Scores
// are computed again:
//
//	dv[j] = Σ_i p[i,j] dout[i]
//	ds[i,j] = Scale p[i,j] (dout[i]·v[j] - dout[i]·out[i] + dlse[i])
//	dq[i] = Σ_j ds[i,j] k[j],   dk[j] = Σ_i ds[i,j] q[i]
//
// Sums run from the first to the last, in blocks of 96 queries and keys in lanes, and of
// 64 elsewhere; see Forward.
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

// AddTo adds what Backward has kept to dk and dv or, if first is set, sets them to it.
// Several parts add to the same dk and dv, and so do heads of queries that share a head of
// keys. The caller calls AddTo in a fixed order, whichever of them is ready first.
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

// Forward is Attender.Forward for all queries.
func (a Attention[T]) Forward(q, k, v, out Rows[T], lse []T) {
	h := a.Attend(nil, k, v)
	defer h.Release()
	h.Forward(q, out, lse, 0, a.S)
}

// Backward is Attender.Backward and AddTo for all queries, part by part. It adds to dk and
// dv or, if first is set, sets them.
func (a Attention[T]) Backward(q, k, v, out Rows[T], lse []T, dout Rows[T], dlse []T, dq, dk, dv Rows[T], first bool) {
	h := a.Attend(nil, k, v)
	defer h.Release()
	for n := range a.Parts() {
		from, to := a.Part(n)
		h.Backward(q, out, lse, dout, dlse, dq, from, to)
		h.AddTo(dk, dv, first && n == 0)
	}
}

// Work returns the number of scores, by which work is measured.
func (a Attention[T]) Work() int {
	if a.Causal {
		return a.S * (a.S + 1) / 2
	}
	return a.S * a.S
}

// RowAt returns the query, a multiple of 64 or S, before which there are about `work`
// scores. So the queries from RowAt(x) to RowAt(y)-1 have about y - x of them. RowAt(0) is 0,
// and RowAt(Work()) is S.
func (a Attention[T]) RowAt(work int) int {
	switch {
	case work >= a.Work():
		return a.S
	case a.Causal:
		return min(int(float64(math.Sqrt(2*float64(work))/attentionBlock)+0.5)*attentionBlock, a.S)
	}
	return min(int(float64(float64(work)/float64(a.S)/attentionBlock)+0.5)*attentionBlock, a.S)
}
