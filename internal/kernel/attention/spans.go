package attention

import (
	"math"

	"github.com/gomoe/gomoe/internal/kernel"
)

// span is the number of keys with separately computed sums, starting at a multiple of
// span: whole blocks of keys of all kernels. The sums of spans are then joined in order.
// So several threads can compute the spans of a long cache, with the same bits as one
// thread.
const span = 8 * laneKeys

const _ = -uint(span % attentionBlock) // spans are whole blocks

// sums are the partial results of attention of some queries to some keys. For query i,
// top[i] is the largest score s, total[i] the sum of exp(s - top[i]), and element d of
// the values weighted by these powers is values[i·row + d·element].
type sums[T kernel.Float] struct {
	top, total, values []T
	row, element       int
}

// begin sets s to the sums of n queries from query i on, with values of v elements, over
// no keys.
func (s *sums[T]) begin(n, v int, with Terms[T], i int) {
	for x := range n {
		s.top[x], s.total[x] = T(math.Inf(-1)), 0
		if len(with.Sinks) > 0 {
			s.top[x], s.total[x] = with.sink(i+x), 1
		}
		for d := range v {
			s.values[x*s.row+d*s.element] = 0
		}
	}
}

// set copies the sums of n queries.
func (s *sums[T]) set(n, v int, from *sums[T]) {
	copy(s.top[:n], from.top)
	copy(s.total[:n], from.total)
	for i := range n {
		for d := range v {
			s.values[i*s.row+d*s.element] = from.values[i*from.row+d*from.element]
		}
	}
}

// join adds the sums of the next span to the sums of n queries. A span without keys
// changes nothing: its total is 0. Its largest score is no indication, because NaN scores
// may leave it at -Inf.
func (s *sums[T]) join(n, v int, next *sums[T]) {
	var keep, scale [laneQueries]T
	for i := range n {
		a, b := s.top[i], next.top[i]
		switch top := max(a, b); {
		case next.total[i] == 0:
			keep[i], scale[i] = 1, 0
		case s.total[i] == 0:
			keep[i], scale[i] = 0, 1
			s.top[i], s.total[i] = b, next.total[i]
		default:
			keep[i], scale[i] = exp(a-top), exp(b-top)
			s.top[i], s.total[i] = top, T(s.total[i]*keep[i])+T(next.total[i]*scale[i])
		}
	}
	if s.row != 1 || next.row != 1 {
		for i := range n {
			if scale[i] == 0 && keep[i] == 1 {
				continue
			}
			for d := range v {
				s.add(i*s.row+d*s.element, next.values[i*next.row+d*next.element], keep[i], scale[i])
			}
		}
		return
	}
	for d := range v {
		at, from := d*s.element, next.values[d*next.element:][:n]
		for i, x := range from {
			s.add(at+i, x, keep[i], scale[i])
		}
	}
}

// add scales the value at i by keep and adds x, scaled. If one of the two has factor 1,
// it keeps its bits, and the other, omitted, may be a NaN.
func (s *sums[T]) add(i int, x, keep, scale T) {
	switch {
	case scale == 0 && keep == 1:
	case keep == 0 && scale == 1:
		s.values[i] = x
	default:
		s.values[i] = T(s.values[i]*keep) + T(x*scale)
	}
}

// Spans returns the first of the spans with keys that a query attends to, and the end of
// the spans.
func (a Attention[T]) Spans() (first, end int) {
	first = max(a.since(0), 0) / span
	return first, max((a.until(a.S-1)+span-1)/span, first)
}

// FewQueries is the largest number of queries for Span.
const FewQueries = attentionBlock

// SpanSums is the number of elements set by Span.
func (a Attention[T]) SpanSums(queries int) int { return queries * (a.V + 2) }

// sumsIn returns the sums of n queries stored in x, in the layout of Span.
func (a *Attention[T]) sumsIn(x []T, n int) sums[T] { return sums[T]{x[:n], x[n:], x[2*n:], 1, n} }

// Span sets result to the sums over span k of the keys for the queries `from` to `to`-1,
// without their sinks; see Join.
func (h *Attender[T]) Span(q kernel.Rows[T], with Terms[T], from, to, k int, result []T) {
	with.Sinks = nil
	set := h.sumsIn(result, to-from)
	if h.lanes.vec == kernel.Portable {
		x := h.block.span(h, q, with, from, to-from, k)
		set.set(to-from, h.V, &x)
		return
	}
	x := h.lanes.span(h.float32s(), h.k.Float32s(), h.v.Float32s(), &h.kept, q.Float32s(), with.float32s(), from, to, k)
	(&sums[float32]{kernel.Float32s(set.top), kernel.Float32s(set.total), kernel.Float32s(set.values), 1, to - from}).set(to-from, h.V, &x)
}

// Join sets out[i] and lse[i] for from ≤ i < to, with the same bits as Forward. parts are
// the consecutive results of Span for all spans of Spans; room has as many elements as
// one.
func (a Attention[T]) Join(parts, room []T, out kernel.Rows[T], lse []T, with Terms[T], from, to int) {
	n := to - from
	all, size := a.sumsIn(room, n), a.SpanSums(n)
	all.begin(n, a.V, with, from)
	first, end := a.Spans()
	for k := range end - first {
		next := a.sumsIn(parts[k*size:], n)
		all.join(n, a.V, &next)
	}
	all.finish(n, a.V, out, lse, from)
}

// finish sets out and lse of n queries from query i on.
func (s *sums[T]) finish(n, v int, out kernel.Rows[T], lse []T, i int) {
	for x := range n {
		total := s.total[x]
		lse[i+x] = s.top[x] + T(math.Log(float64(total)))
		if total == 0 {
			total = 1 // no keys: values are 0
		}
		row := out.Row(i+x, v)
		for d := range row {
			row[d] = s.values[x*s.row+d*s.element] / total
		}
	}
}
