package primitives

import (
	"math"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/attention"
	"github.com/gomoe/gomoe/lowering"
)

// headsOf is attention on one rank: b sequences of s queries with n heads, and a capacity of r
// keys with m heads.
type headsOf[T float] struct {
	attention.Attention[T] // of a sequence with r keys; the last one is at the last query
	b, s, n, r, m          int
	// Query head n is global head off+n, and shares its key head with its group; see keyHead.
	off, group     int
	lengths, start []int32 // nil if there are none
	bias           kernel.Rows[T]
	biasB, biasN   int // strides of sequences and heads in bias; 0 if broadcast
}

// newHeads returns the heads for the arguments at of a kernel of eqn. It returns an error if a
// length is not in 0 to r.
func newHeads[T float](p attentionOp, a *exec.Args, at attentionArgs, placed []lowering.Buf, eqn *graph.Eqn) (headsOf[T], error) {
	q, k, v := a.In[0].Type.Shape, a.In[1].Type.Shape, a.In[2].Type.Shape
	s, d, r := q[1], q[3], k[1]
	scale := p.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(max(d, 1)))
	}
	h := headsOf[T]{attention.Attention[T]{S: s, R: r, D: d, V: v[3], Scale: T(scale), Causal: !p.Full, At: r - s, Window: p.Window, Cap: T(p.SoftCap)},
		q[0], s, q[2], r, k[2], 0, 0, nil, nil, kernel.Rows[T]{}, 0, 0}
	h.off, h.group = keyHeads(a, placed, eqn, 0, 1)
	var bias array.Array
	if at.bias > 0 {
		bias = inType(a, a.In[at.bias], floatOf[T]())
	}
	if a.Dry() != nil {
		return h, nil
	}
	if at.lengths > 0 {
		var err error
		if h.lengths, err = lengthsOf(a, at.lengths, r, placed, eqn); err != nil {
			return h, err
		}
	}
	if at.start > 0 {
		h.start = data[int32](a.In[at.start])
	}
	if at.bias > 0 {
		h.bias = kernel.Rows[T]{X: data[T](bias), Stride: r}
		if n := bias.Type.Shape[1]; n > 1 {
			h.biasN = s * r
			h.biasB = n * s * r
		} else {
			h.biasB = s * r
		}
		if bias.Type.Shape[0] == 1 {
			h.biasB = 0
		}
	}
	return h, nil
}

func floatOf[T float]() graph.DType {
	if T(0.5)+T(1e-15) == T(0.5) {
		return graph.F32
	}
	return graph.F64
}

// keyHeads returns the number of the rank's first head of argument many, and how many consecutive ones share a head of
// argument few. If the rank has all of the latter, the number counts the heads of all ranks; otherwise it is 0.
func keyHeads(a *exec.Args, placed []lowering.Buf, eqn *graph.Eqn, many, few int) (off, group int) {
	n, m := a.In[many].Type.Shape[2], a.In[few].Type.Shape[2]
	if m == eqn.In[few].Type.Shape[2] && m > 0 {
		n = eqn.In[many].Type.Shape[2]
		off, _ = a.Part(placed[many].Spec.At(2), n)
	}
	return off, max(n/max(m, 1), 1)
}

// keyHead returns the rank's key head used by query head n.
func (h *headsOf[T]) keyHead(n int) int { return (h.off + n) / h.group }

// sharedHeads returns the number of consecutive query heads sharing a key head, on every
// rank.
func (h *headsOf[T]) sharedHeads() int {
	switch {
	case h.off%h.group == 0 && h.n%h.group == 0:
		return h.group
	case h.n > 0 && h.keyHead(0) == h.keyHead(h.n-1):
		return h.n
	}
	return 1
}

// sequence returns the attention of sequence b.
func (h *headsOf[T]) sequence(b int) attention.Attention[T] {
	x := h.Attention
	if h.lengths != nil {
		x.R = int(h.lengths[b])
		x.At = x.R - h.s
	}
	if h.start != nil {
		x.At = int(h.start[b])
	}
	return x
}

// biasOf returns the bias of head n of sequence b.
func (h *headsOf[T]) biasOf(b, n int) kernel.Rows[T] {
	return kernel.Rows[T]{X: kernel.From(h.bias.X, b*h.biasB+n*h.biasN), Stride: h.bias.Stride}
}

// grain is the least work, in scores, worth a goroutine: some 100 microseconds with vectors.
func (h *headsOf[T]) grain() int { return 1 + 512*dear/max(h.D+h.V, 1) }

// attentionKernel concatenates the work of all heads and cuts it into equal pieces. A piece
// may begin or end within a head, because rows of queries do not depend on each other. If
// each sequence has one query, the query heads sharing a key head are treated as the queries
// of one head, reading keys once. The work on few queries is cut by keys: see attendFew.
func attentionKernel[T float](p attentionOp, placed []lowering.Buf, eqn *graph.Eqn) exec.Kernel {
	at := p.args(3)
	return func(a *exec.Args) error {
		h, err := newHeads[T](p, a, at, placed, eqn)
		if err != nil {
			return err
		}
		d := floatOf[T]()
		out := a.Out[0]
		if out.Type.DType != d {
			out = scratchArray(a, out.Type.With(d))
		}
		w := attentionWork[T]{exec.Taking{}, a.Dry(), h, h.Attention, h.n, 1, a.In[1], a.In[2], nil, nil, nil, nil, nil, nil}
		w.q, w.out, w.lse = data[T](inType(a, a.In[0], d)), data[T](out), data[T](a.Out[1])
		if a.In[1].Type.DType == d {
			w.k, w.v = data[T](a.In[1]), data[T](a.In[2])
		}
		if at.sinks > 0 {
			w.sinks = data[T](inType(a, a.In[at.sinks], d))
		}
		if h.s == 1 {
			w.each = h.sharedHeads()
			w.heads = h.n / w.each
			w.unit.S, w.unit.Causal, w.unit.Window = w.each, false, 0
		}
		if w.unit.S <= attention.FewQueries {
			attendFew(a, w)
		} else {
			exec.Share(a, h.b*w.heads*w.unit.Work(), h.grain(), w)
		}
		if out.Type.DType != a.Out[0].Type.DType {
			return convert(a, a.Out[0], out)
		}
		return nil
	}
}

type attentionWork[T float] struct {
	exec.Taking
	dry *kernel.Dry
	headsOf[T]
	unit              attention.Attention[T] // the unit of work, the same for all sequences
	heads, each       int                    // of a sequence: units, and heads of queries in each
	keys, values      array.Array
	q, k, v, out, lse []T
	sinks             []T
}

func (h *attentionWork[T]) Piece(lo, hi int) {
	if lo == hi {
		return
	}
	work := h.unit.Work()
	var at *attention.Attender[T]
	for i := lo / work; i*work < hi; i++ {
		from, to := h.unit.RowAt(max(lo-i*work, 0)), h.unit.RowAt(hi-i*work)
		if from >= to {
			continue
		}
		b, n := i/h.heads, i%h.heads
		if at == nil || n == 0 || h.keyHead(n*h.each) != h.keyHead((n-1)*h.each) {
			if at != nil {
				at.Release()
			}
			at = h.attend(b, h.keyHead(n*h.each))
		}
		q, out, lse, with := h.unitOf(b, n)
		at.Forward(q, out, lse, with, from, to)
	}
	if at != nil {
		at.Release()
	}
}

// keysOf returns the attention of the queries of a unit of sequence b.
func (h *attentionWork[T]) keysOf(b int) attention.Attention[T] {
	x := h.sequence(b)
	if h.s == 1 && h.dry == nil { // all queries are at the same position
		if x.Causal {
			if x.Window > 0 {
				x.From = max(x.At+1-x.Window, 0)
			}
			x.R = min(max(x.At+1, 0), x.R)
		}
	}
	if h.s == 1 {
		x.S, x.Causal, x.Window = h.each, false, 0
	}
	return x
}

// attend returns the Attender for head m of the keys of sequence b.
func (h *attentionWork[T]) attend(b, m int) *attention.Attender[T] {
	x := h.keysOf(b)
	if h.keys.Type.DType != floatOf[T]() {
		return x.AttendStored(h.dry, attention.Stored{Data: h.keys, At: (b*h.r*h.m + m) * h.D, Stride: h.m * h.D},
			attention.Stored{Data: h.values, At: (b*h.r*h.m + m) * h.V, Stride: h.m * h.V})
	}
	return x.Attend(h.dry, kernel.HeadOf(h.k, b, m, h.r, h.m, h.D), kernel.HeadOf(h.v, b, m, h.r, h.m, h.V))
}

// unitOf returns the queries of unit n of sequence b, and their results and terms. If each
// sequence has one query, a unit has the queries of the heads sharing a key head.
func (h *attentionWork[T]) unitOf(b, n int) (q, out kernel.Rows[T], lse []T, with attention.Terms[T]) {
	if h.s > 1 {
		return kernel.HeadOf(h.q, b, n, h.s, h.n, h.D), kernel.HeadOf(h.out, b, n, h.s, h.n, h.V), kernel.From(h.lse, (b*h.n+n)*h.s),
			attention.Terms[T]{Bias: h.biasOf(b, n), Sinks: kernel.From(h.sinks, n)}
	}
	n *= h.each
	row := b*h.n + n
	return kernel.Rows[T]{X: kernel.From(h.q, row*h.D), Stride: h.D}, kernel.Rows[T]{X: kernel.From(h.out, row*h.V), Stride: h.V}, kernel.From(h.lse, row),
		attention.Terms[T]{Bias: kernel.Rows[T]{X: h.biasOf(b, n).X, Stride: h.biasN}, Sinks: kernel.From(h.sinks, n), SinkStep: 1}
}

// minUnits is the number of units occupying all threads without cutting keys.
const minUnits = 64

// attendFew computes attention of few queries per sequence, as in decoding. The work is cut into
// units weighted by their number of keys. If there are few units with many keys, they are cut into
// spans of keys, and the results of the spans are joined. Both have the same bits.
func attendFew[T float](a *exec.Args, w attentionWork[T]) {
	rows, units := w.unit.S, w.b*w.heads
	if rows == 0 || units == 0 {
		return
	}
	first, work := exec.MakeDirty[int](a, w.b+1), 0
	_, most := w.unit.Spans()
	if a.Dry() != nil {
		if units < minUnits && most > 1 {
			exec.MakeDirty[T](a, units*(most+1)*w.unit.SpanSums(rows))
		}
		exec.Share(a, units*most, 1, keySpans[T]{attentionWork: w})
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
	// In vectors one row takes the time of 16 rows, and a unit takes the time of 16 additional keys. A
	// piece of this many products takes about 5 microseconds.
	const lanes, more, products = 16, 16, 1 << 17
	each := max((rows+lanes-1)/lanes*lanes*(w.D+w.V), 1) * (keys/max(work, 1) + more)
	grain := 1 + products/max(each, 1)
	s := keySpans[T]{attentionWork: w, first: first}
	if units < minUnits && most > 1 && !a.Alone(work, grain) {
		s.size, s.most = w.unit.SpanSums(rows), most+1
		s.parts = exec.MakeDirty[T](a, units*s.most*s.size)
	}
	exec.Share(a, work, grain, s)
	if s.parts != nil {
		exec.Share(a, units, 1+cheap/max(most*s.size, 1), spanJoin[T](s))
	}
}

// keySpans is the work on all spans of the keys of all units. Without parts, the first span of a
// unit does the work of the whole unit.
type keySpans[T float] struct {
	attentionWork[T]
	first      []int // the number of the first span of each sequence, and of all spans
	parts      []T   // the sums of spans: `most` per unit, of `size` elements each
	size, most int
}

// of returns the number of spans of the units of sequence b.
func (s *keySpans[T]) of(b int) int { return (s.first[b+1] - s.first[b]) / max(s.heads, 1) }

func (s *keySpans[T]) Piece(lo, hi int) {
	if s.dry != nil { // a piece may have any unit
		at := s.attend(0, 0)
		q, out, lse, with := s.unitOf(0, 0)
		at.Forward(q, out, lse, with, 0, s.unit.S)
		at.Release()
		return
	}
	var at *attention.Attender[T]
	of := -1 // the key head of at, counted over all sequences
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

// spanJoin is the work of joining the spans of each unit.
type spanJoin[T float] keySpans[T]

func (s *spanJoin[T]) Piece(lo, hi int) {
	for i := lo; i < hi; i++ {
		b, n := i/s.heads, i%s.heads
		_, out, lse, with := s.unitOf(b, n)
		x, parts := s.keysOf(b), s.parts[i*s.most*s.size:]
		x.Join(parts, parts[(s.most-1)*s.size:], out, lse, with, 0, s.unit.S)
	}
}
