package primitives

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/internal/kernel/attention"
)

// unitsAlone is how many units give all threads work without their keys being cut.
const unitsAlone = 64

// few does attention of units of few queries, as decoding has them. The work is cut into
// units of equal numbers of keys or, of few units with many keys, into spans of the keys, whose
// results are then joined. Both ways have the same bits.
func few[T float](a *exec.Args, w attending[T]) {
	rows, units := w.unit.S, w.b*w.heads
	if rows == 0 || units == 0 {
		return
	}
	first, work := exec.MakeDirty[int](a, w.b+1), 0
	_, most := w.unit.Spans()
	if a.Dry() != nil {
		if units < unitsAlone && most > 1 {
			exec.MakeDirty[T](a, units*(most+1)*w.unit.SpanSums(rows))
		}
		exec.Share(a, units*most, 1, spans[T]{attending: w})
		return
	}
	keys := 0
	most = 1
	for b := range w.b {
		first[b] = work
		x := w.keysOf(b)
		from, to := x.Spans()
		most = max(most, to-from)
		work += w.heads * max(to-from, 1)
		keys += w.heads * x.R
	}
	first[w.b] = work
	// In vectors a row takes as long as 16, and a unit as long as so many keys more; a piece of this
	// many products takes some 5 microseconds.
	const lanes, more, products = 16, 16, 1 << 17
	each := max((rows+lanes-1)/lanes*lanes*(w.D+w.V), 1) * (keys/max(work, 1) + more)
	grain := 1 + products/max(each, 1)
	s := spans[T]{attending: w, first: first}
	if units < unitsAlone && most > 1 && !a.Alone(work, grain) {
		s.size, s.most = w.unit.SpanSums(rows), most+1
		s.parts = exec.MakeDirty[T](a, units*s.most*s.size)
	}
	exec.Share(a, work, grain, s)
	if s.parts != nil {
		exec.Share(a, units, 1+cheap/max(most*s.size, 1), joined[T](s))
	}
}

// spans is the work of all spans of the keys of all units, as it is or, without parts, unit by
// unit: a unit is done with its first span.
type spans[T float] struct {
	attending[T]
	first      []int // the number of the first span of each sequence, and of all spans
	parts      []T   // what spans come to, for `most` of them, of size elements, in each unit
	size, most int
}

// of returns the number of spans of the units of sequence b.
func (s *spans[T]) of(b int) int { return (s.first[b+1] - s.first[b]) / max(s.heads, 1) }

func (s *spans[T]) Piece(lo, hi int) {
	if s.dry != nil { // a piece may have any unit
		at := s.attend(0, 0)
		q, out, lse, with := s.unitOf(0, 0)
		at.Forward(q, out, lse, with, 0, s.unit.S)
		at.Release()
		return
	}
	var at *attention.Attender[T]
	of := -1 // the head of keys that at has, counted over all sequences
	for b := range s.b {
		for i := max(lo, s.first[b]); i < min(hi, s.first[b+1]); i++ {
			n, k := (i-s.first[b])/s.of(b), (i-s.first[b])%s.of(b)
			if s.parts == nil && k > 0 {
				continue
			}
			if m := s.keyHead(n * s.each); of != b*s.m+m {
				if at != nil {
					at.Release()
				}
				at, of = s.attend(b, m), b*s.m+m
			}
			q, out, lse, with := s.unitOf(b, n)
			if s.parts == nil {
				at.Forward(q, out, lse, with, 0, s.unit.S)
				continue
			}
			from, to := at.Spans()
			if from+k < to {
				at.Span(q, with, 0, s.unit.S, from+k, s.parts[((b*s.heads+n)*s.most+k)*s.size:])
			}
		}
	}
	if at != nil {
		at.Release()
	}
}

// joined is the work of joining the spans of each unit.
type joined[T float] spans[T]

func (s *joined[T]) Piece(lo, hi int) {
	for i := lo; i < hi; i++ {
		b, n := i/s.heads, i%s.heads
		_, out, lse, with := s.unitOf(b, n)
		x, parts := s.keysOf(b), s.parts[i*s.most*s.size:]
		x.Join(parts, parts[(s.most-1)*s.size:], out, lse, with, 0, s.unit.S)
	}
}
