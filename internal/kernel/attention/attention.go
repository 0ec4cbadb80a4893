package attention

import (
	"math"
	"sort"
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/half"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/quant"
)

// Attention is scaled dot-product attention of one head, with S queries and R keys of D
// elements and R values of V elements:
//
//	out[i] = Σ_j p[i,j] v[j],   p[i,j] = exp(s[i,j] - lse[i]),   lse[i] = log(exp(sink[i]) + Σ_j exp(s[i,j])),
//	s[i,j] = cap(Scale q[i]·k[j]) + bias[i,j],   cap(x) = Cap tanh(x / Cap), or x if Cap is 0
//
// where j runs over keys From to R-1. If Causal is set, it stops at key At+i, and a
// Window greater than 0 leaves only the last Window keys. A query without keys has out 0
// and, without a sink, lse -Inf. Scores exist only for a block of queries and keys at a
// time, never for S by R. In addition to its arguments a head needs memory for up to
// about R·(D+V) elements, and up to twice that with Backward; Forward of up to 96 queries
// needs little. Attend returns an Attender, which does the work for one head of keys and
// values.
//
// Sources: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018);
// Dao and others, "FlashAttention" (2022).
type Attention[T kernel.Float] struct {
	S, R, D, V int
	Scale      T
	Causal     bool
	At         int // the position of query 0 among the keys
	Window     int
	From       int
	Cap        T
}

// until returns the end of the range of keys that query i attends to, and since its
// beginning. since may be greater than until.
func (a *Attention[T]) until(i int) int {
	if a.Causal {
		return min(max(a.At+i+1, 0), a.R)
	}
	return a.R
}

func (a *Attention[T]) since(i int) int {
	if a.Window > 0 {
		return max(a.From, a.At+i+1-a.Window)
	}
	return a.From
}

// Terms are the terms added to scores and to sums of powers: row i of Bias belongs to
// query i, and so does Sinks[i·SinkStep]. Nothing is added without Bias or Sinks.
type Terms[T kernel.Float] struct {
	Bias     kernel.Rows[T]
	Sinks    []T
	SinkStep int
}

// Stored are keys or values of one head in an element type converted block by block:
// bf16, f16 or q8_0. Row i begins at element At + i·Stride of Data. A Stored with a zero
// Data has none.
type Stored struct {
	Data       array.Array
	At, Stride int
}

func (s *Stored) some() bool { return s.Data.Type.DType != graph.NoDType }

// rows converts the first d elements of n rows, from row i on, to rows of dst with a
// stride of pitch elements.
func (s *Stored) rows(dst []float32, pitch, i, n, d int) {
	at := s.At + i*s.Stride
	switch s.Data.Type.DType {
	case graph.BF16:
		x := array.Data[array.Brain](s.Data)[at:]
		done := half.WidenBrainRows(n, d, dst, pitch, x, s.Stride)
		for j := 0; j < n && done < d; j++ {
			array.WidenBrain(dst[j*pitch+done:], x[j*s.Stride:][done:d])
		}
	case graph.F16:
		x := array.Data[array.Half](s.Data)[at:]
		done := half.WidenHalfRows(n, d, dst, pitch, x, s.Stride)
		for j := 0; j < n && done < d; j++ {
			array.WidenHalf(dst[j*pitch+done:], x[j*s.Stride:][done:d])
		}
	default:
		each, size := s.Data.Type.DType.Block()
		x, stride := s.Data.Bytes()[at/each*size:], s.Stride/each*size
		done := half.WidenQ8Rows(n, d, dst, pitch, x, stride)
		for j := 0; j < n && done < d; j++ {
			if err := quant.Dequantize(dst[j*pitch:][:d], graph.Q8_0, x[j*stride:][:d/each*size]); err != nil {
				panic(err) // heads are whole blocks
			}
		}
	}
}

// Every part begins at a multiple of partUnit, which is a multiple of the blocks of queries
// of all kernels.
const partUnit = 192

// Parts returns the number of parts, up to 4, into which the queries are cut for parallel
// work. It depends on S alone, so the order of Backward's sums does as well.
func (a Attention[T]) Parts() int { return min(max(a.S/partUnit, 1), 4) }

// Part returns the queries `from` to `to`-1 of part n. Parts have about equal work.
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
	k, v  kernel.Rows[T]
	kept  [2]Stored // keys and values, if they are not in k and v
	keys  int       // the last Backward computed dk and dv of the keys before this one
	lanes lanes
	block blocks[T]
}

// There is a pool for each element type, because a package variable cannot have a type
// parameter.
var attenders32, attenders64 sync.Pool

func attenders[T kernel.Float]() *sync.Pool {
	if unsafe.Sizeof(T(0)) == 4 {
		return &attenders32
	}
	return &attenders64
}

// Attend returns an Attender for k and v, which it reads until it is released. It reuses
// the memory of released Attenders.
func (a Attention[T]) Attend(dry *kernel.Dry, k, v kernel.Rows[T]) *Attender[T] {
	return a.attend(dry, kernel.VectorsOf[T](), k, v)
}

// AttendStored is Attend for keys and values in another element type, for Forward only.
func (a Attention[T]) AttendStored(dry *kernel.Dry, k, v Stored) *Attender[T] {
	h := a.Attend(dry, kernel.Rows[T]{}, kernel.Rows[T]{})
	h.kept = [2]Stored{k, v}
	return h
}

func (a Attention[T]) attend(dry *kernel.Dry, vec kernel.Kind, k, v kernel.Rows[T]) *Attender[T] {
	var h *Attender[T]
	if dry != nil {
		h = kernel.Space[Attender[T]](dry)
	} else if kept, ok := attenders[T]().Get().(*Attender[T]); ok {
		h = kept
	} else {
		h = new(Attender[T])
	}
	h.Attention, h.dry, h.k, h.v, h.kept, h.keys = a, dry, k, v, [2]Stored{}, 0
	h.block.vec, h.block.work.Dry, h.lanes.dry = vec, dry, dry
	if a.D == 0 || a.V == 0 || vec != kernel.AVX2 && vec != kernel.AVX512 {
		vec = kernel.Portable // rows are empty, or these kernels do not work in lanes
	}
	h.lanes.begin(vec)
	return h
}

// Release returns the memory for other Attenders. h may not be used afterwards.
func (h *Attender[T]) Release() {
	h.k, h.v, h.kept = kernel.Rows[T]{}, kernel.Rows[T]{}, [2]Stored{} // the pool keeps no caller's memory alive
	if h.dry == nil {
		attenders[T]().Put(h)
	}
}

// Forward sets out[i] and lse[i] for from ≤ i < to. from is 0, the first query of a part,
// or a result of RowAt. Row i of both depends only on q[i] and on the keys and values
// that query i attends to: not on others, even if these are NaN, not on from and to, and
// not on S and R. So queries computed one by one, while R grows, get the same bits as
// queries computed together. A row with only -Inf as scores is like a row without keys.
//
// Blocks of keys begin at multiples of 96 if float32 is computed in lanes, with avx2 and
// avx512, and at multiples of 64 otherwise. Blocks are added in order. For each block,
// the sums so far are first rescaled to the largest score so far. Then the sum of the
// block's powers is added to the total, and the sum of the values weighted by them to the
// row. Powers and values are added from the first key to the last. The sums of each span
// of 768 keys, starting at a multiple of 768, are computed separately, and joined in
// order after the sink. In lanes q is scaled before being multiplied, otherwise the
// scores are scaled.
func (h *Attender[T]) Forward(q, out kernel.Rows[T], lse []T, with Terms[T], from, to int) {
	if h.lanes.vec == kernel.Portable {
		h.block.forward(h, q, out, lse, with, from, to)
		return
	}
	h.lanes.forward(h.float32s(), h.k.Float32s(), h.v.Float32s(), &h.kept, q.Float32s(), out.Float32s(), kernel.Float32s(lse), with.float32s(), from, to)
}

// Backward sets dq[i] for from ≤ i < to, where from is as in Forward. It keeps the
// contributions of these queries to dk and dv for AddTo. out and lse are Forward's
// results for q; dout and dlse are the cotangents of out and lse, where a nil dlse means
// zero. Scores are recomputed:
//
//	dv[j] = Σ_i p[i,j] dout[i]
//	ds[i,j] = Scale cap'(Scale q[i]·k[j]) p[i,j] (dout[i]·v[j] - dout[i]·out[i] + dlse[i])
//	dq[i] = Σ_j ds[i,j] k[j],   dk[j] = Σ_i ds[i,j] q[i]
//
// Sums run from the first to the last, in blocks of 96 queries and keys in lanes, and of
// 64 otherwise; see Forward.
func (h *Attender[T]) Backward(q, out kernel.Rows[T], lse []T, dout kernel.Rows[T], dlse []T, dq kernel.Rows[T], bias kernel.Rows[T], from, to int) {
	if h.keys = 0; from >= to {
		return
	}
	h.keys = h.until(to - 1)
	if h.lanes.vec == kernel.Portable {
		h.block.backward(h, q, out, lse, dout, dlse, dq, bias, from, to)
		return
	}
	h.lanes.backward(h.float32s(), h.k.Float32s(), h.v.Float32s(), q.Float32s(), out.Float32s(), kernel.Float32s(lse),
		dout.Float32s(), kernel.Float32s(dlse), dq.Float32s(), bias.Float32s(), from, to)
}

// AddTo adds the contributions kept by Backward to dk and dv or, if first is set, sets dk
// and dv to them. Several parts add to the same dk and dv, and so do heads of queries
// sharing a head of keys. The caller calls AddTo in a fixed order, whichever of them is
// ready first.
func (h *Attender[T]) AddTo(dk, dv kernel.Rows[T], first bool) {
	if first {
		for j := range h.dry.Times(h.R) {
			clear(dk.Row(j, h.D))
			clear(dv.Row(j, h.V))
		}
	}
	if h.dry != nil {
		return
	}
	if h.lanes.vec == kernel.Portable {
		h.block.addTo(h, dk, dv)
		return
	}
	h.lanes.addTo(h.D, h.V, h.keys, dk.Float32s(), dv.Float32s())
}

func (h *Attender[T]) float32s() Attention[float32] {
	return Attention[float32]{h.S, h.R, h.D, h.V, float32(h.Scale), h.Causal, h.At, h.Window, h.From, float32(h.Cap)}
}

func (t Terms[T]) float32s() Terms[float32] {
	return Terms[float32]{t.Bias.Float32s(), kernel.Float32s(t.Sinks), t.SinkStep}
}

// sink returns the score of query i that has no value.
func (t *Terms[T]) sink(i int) T { return t.Sinks[i*t.SinkStep] }

// Forward is Attender.Forward for all queries.
func (a Attention[T]) Forward(q, k, v, out kernel.Rows[T], lse []T, with Terms[T]) {
	h := a.Attend(nil, k, v)
	defer h.Release()
	h.Forward(q, out, lse, with, 0, a.S)
}

// Backward is Attender.Backward and AddTo for all queries, part by part. It adds to dk and
// dv or, if first is set, sets them.
func (a Attention[T]) Backward(q, k, v, out kernel.Rows[T], lse []T, dout kernel.Rows[T], dlse []T, dq, dk, dv, bias kernel.Rows[T], first bool) {
	h := a.Attend(nil, k, v)
	defer h.Release()
	for n := range a.Parts() {
		from, to := a.Part(n)
		h.Backward(q, out, lse, dout, dlse, dq, bias, from, to)
		h.AddTo(dk, dv, first && n == 0)
	}
}

// Work returns the number of scores plus the number of queries, as a measure of work.
func (a Attention[T]) Work() int { return a.before(a.S) }

// before is Work of the first i queries.
func (a *Attention[T]) before(i int) int {
	n := a.R
	if a.Causal {
		n = min(n, max(a.At, 0)+(i+1)/2)
	}
	if a.Window > 0 {
		n = min(n, a.Window)
	}
	return i * (n + 1)
}

// RowAt returns the query, a multiple of 64 or S, with about `work` scores before it. So
// the queries from RowAt(x) to RowAt(y)-1 have about y - x of them. RowAt(0) is 0, and
// RowAt(Work()) is S.
func (a Attention[T]) RowAt(work int) int {
	units := sort.Search(a.S/attentionBlock, func(i int) bool { return a.before((i+1)*attentionBlock) > work })
	if work >= a.Work() {
		return a.S
	}
	return units * attentionBlock
}
