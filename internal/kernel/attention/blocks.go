package attention

import (
	"math"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// attentionBlock is the number of queries and the number of keys in a block. They are
// equal, so the causal mask cuts only blocks on the diagonal.
const attentionBlock = 64

// blocks is attention by the products of package gemm, for float64, for NEON and for the
// portable kernels.
type blocks[T kernel.Float] struct {
	vec         kernel.Kind
	work        gemm.Workspace[T]
	p, ds, sums []T // scores, then powers; their cotangents; weighted sums of the values of a span
	whole       []T // weighted sums of the values of all spans so far
	k, v        []T // a block of keys and values stored in another element type
	delta       []T // dout[i]·out[i] - dlse[i]
	dk, dv      []T
	// Per query: the largest score, and the sum of p, of a span and of all so far.
	top, total, wholeTop, wholeTotal [attentionBlock]T
	slopes                           [attentionBlock]T // derivatives of a query's scores by the products of q and k
}

func (w *blocks[T]) forward(h *Attender[T], q, out kernel.Rows[T], lse []T, with Terms[T], from, to int) {
	const block = attentionBlock
	// A dry run also visits the last but one of the blocks of queries: it is whole and,
	// unlike the first, sees uncut keys.
	for i0 := from; i0 < to; i0 = max(i0+block, h.dry.Next(i0, block, to)-block) {
		in := min(block, to-i0)
		all := sums[T]{w.wholeTop[:], w.wholeTotal[:], kernel.Take(h.dry, &w.whole, block*h.V), h.V, 1}
		n := h.dry.Times(in)
		all.begin(n, h.V, with, i0)
		for k0 := max(h.since(i0), 0) / span; k0*span < h.until(i0+in-1); k0 = h.dry.Next(k0*span, span, h.until(i0+in-1)) / span {
			x := w.span(h, q, with, i0, in, k0)
			all.join(n, h.V, &x)
		}
		all.finish(n, h.V, out, lse, i0)
	}
}

// span computes the sums over span k0 of the keys for the `in` queries from i0 on. The
// result lies in w.
func (w *blocks[T]) span(h *Attender[T], q kernel.Rows[T], with Terms[T], i0, in, k0 int) sums[T] {
	const block = attentionBlock
	p, values := kernel.Take(h.dry, &w.p, block*block), kernel.Take(h.dry, &w.sums, block*h.V)
	for i := range in {
		w.top[i], w.total[i] = T(math.Inf(-1)), 0
	}
	clear(values)
	end := min((k0+1)*span, h.until(i0+in-1))
	for j0 := max(h.since(i0), k0*span) / block * block; j0 < end; j0 = h.dry.Next(j0, block, end) {
		jn := min(block, h.R-j0)
		k, v := w.cells(h, 0, j0, jn), w.cells(h, 1, j0, jn)
		w.work.Multiply(in, jn, h.D, q.From(i0).X, q.Stride, 1, k.X, 1, k.Stride, p, block, false)
		cut := h.isCut(i0, in, j0, jn)
		for i := range in {
			lo, hi := h.seen(i0+i, j0, jn)
			row := kernel.From(p, i*block+lo)
			if h.dry == nil && lo < hi {
				scale := h.Scale
				if h.Cap != 0 || len(with.Bias.X) > 0 {
					h.adjust(row[:hi-lo], with.Bias, i0+i, j0+lo, nil)
					scale = 1
				}
				w.powers(row[:hi-lo], i, scale, values[i*h.V:][:h.V])
			}
			if cut && lo < hi {
				w.work.Multiply(1, h.V, hi-lo, row, block, 1, kernel.From(v.X, lo*v.Stride), v.Stride, 1, kernel.From(values, i*h.V), h.V, true)
			}
		}
		if !cut {
			w.work.Multiply(in, h.V, jn, p, block, 1, v.X, v.Stride, 1, values, h.V, true)
		}
	}
	return sums[T]{w.top[:], w.total[:], values, h.V, 1}
}

// seen returns the range [lo, hi) of keys, counted from j0, that query i attends to among
// the jn keys from j0 on. It is empty if lo is not below hi.
func (a *Attention[T]) seen(i, j0, jn int) (lo, hi int) {
	return max(a.since(i)-j0, 0), min(a.until(i)-j0, jn)
}

// isCut reports whether one of the `in` queries from i0 on attends to only some of the jn
// keys from j0 on.
func (a *Attention[T]) isCut(i0, in, j0, jn int) bool {
	return a.until(i0) < j0+jn || a.since(i0+in-1) > j0
}

// cells returns keys, or values if which is 1, from j0 on.
func (w *blocks[T]) cells(h *Attender[T], which, j0, jn int) kernel.Rows[T] {
	x, buf, d := h.k, &w.k, h.D
	if which == 1 {
		x, buf, d = h.v, &w.v, h.V
	}
	if !h.kept[which].some() {
		return x.From(j0)
	}
	to := kernel.Take(h.dry, buf, attentionBlock*d)
	if h.dry == nil {
		h.kept[which].rows(kernel.Float32s(to), d, j0, jn, d)
	}
	return kernel.Rows[T]{X: to, Stride: d}
}

// adjust scales the scores of query i for the keys from j on, caps them and adds the
// bias. If slopes has elements, it is set to the derivative of a score by the product of
// q and k.
func (a *Attention[T]) adjust(scores []T, bias kernel.Rows[T], i, j int, slopes []T) {
	for x := range scores {
		scores[x] *= a.Scale
	}
	for x := range slopes {
		slopes[x] = a.Scale
	}
	if a.Cap != 0 {
		for x, s := range scores {
			t := T(math.Tanh(float64(s / a.Cap)))
			scores[x] = a.Cap * t
			if len(slopes) > 0 {
				slopes[x] *= 1 - T(t*t)
			}
		}
	}
	if len(bias.X) > 0 {
		add(scores, bias.From(i).X[j:])
	}
}

// powers replaces the scores of query i of a block by their powers, and rescales the sums
// of the query's values to the largest score so far.
func (w *blocks[T]) powers(scores []T, i int, scale T, sums []T) {
	t := vector.ScaleMax(w.vec, scores, scale, w.top[i])
	shift := t
	if math.IsInf(float64(t), -1) {
		shift = 0 // -Inf - (-Inf) would be NaN, but a later block may have scores
	}
	keep := exp(w.top[i] - shift)
	w.top[i], w.total[i] = t, vector.AddExp(w.vec, scores, shift, T(w.total[i]*keep))
	if keep != 1 {
		vector.Scale(w.vec, sums, keep)
	}
}

func (w *blocks[T]) backward(h *Attender[T], q, out kernel.Rows[T], lse []T, dout kernel.Rows[T], dlse []T, dq, bias kernel.Rows[T], from, to int) {
	const block = attentionBlock
	p, ds := kernel.Take(h.dry, &w.p, block*block), kernel.Take(h.dry, &w.ds, block*block)
	dk, dv, delta := kernel.Take(h.dry, &w.dk, h.R*h.D), kernel.Take(h.dry, &w.dv, h.R*h.V), kernel.Take(h.dry, &w.delta, to-from)
	odd := h.Cap != 0 || len(bias.X) > 0
	for i := from; i < from+h.dry.Times(to-from); i++ {
		d := T(0)
		o := out.Row(i, h.V)
		for x, y := range dout.Row(i, h.V) {
			d += T(y * o[x])
		}
		if dlse != nil {
			d -= dlse[i]
		}
		delta[i-from] = d
		clear(dq.Row(i, h.D))
	}
	clear(dk[:h.dry.Times(h.keys*h.D)])
	clear(dv[:h.dry.Times(h.keys*h.V)])
	for j0 := max(h.since(from), 0) / block * block; j0 < h.keys; j0 = h.dry.Next(j0, block, h.keys) {
		jn := min(block, h.keys-j0)
		for i0 := from; i0 < to; i0 = h.dry.Next(i0, block, to) {
			in := min(block, to-i0)
			if h.until(i0+in-1) <= j0 || h.since(i0) >= j0+jn {
				continue
			}
			w.work.Multiply(in, jn, h.D, q.From(i0).X, q.Stride, 1, h.k.From(j0).X, 1, h.k.Stride, p, block, false)
			w.work.Multiply(in, jn, h.V, dout.From(i0).X, dout.Stride, 1, h.v.From(j0).X, 1, h.v.Stride, ds, block, false)
			for i := range h.dry.Times(in) {
				s, d := p[i*block:][:jn], ds[i*block:][:jn]
				lo, hi := h.seen(i0+i, j0, jn)
				lo = min(lo, jn)
				hi = max(hi, lo)
				for _, x := range [2][]T{s, d} {
					clear(x[:lo])
					clear(x[hi:])
				}
				s, d = s[lo:hi], d[lo:hi]
				sum := lse[i0+i]
				if math.IsInf(float64(sum), -1) {
					sum = -sum // powers are 0
				}
				if !odd {
					vector.AttentionGrad(w.vec, s, d, h.Scale, sum, delta[i0+i-from])
					continue
				}
				h.adjust(s, bias, i0+i, j0+lo, w.slopes[:len(s)])
				vector.AttentionGrad(w.vec, s, d, 1, sum, delta[i0+i-from])
				for x, c := range w.slopes[:len(s)] {
					d[x] *= c
				}
			}
			w.work.Multiply(jn, h.V, in, p, 1, block, dout.From(i0).X, dout.Stride, 1, kernel.From(dv, j0*h.V), h.V, true)
			w.work.Multiply(jn, h.D, in, ds, 1, block, q.From(i0).X, q.Stride, 1, kernel.From(dk, j0*h.D), h.D, true)
			w.work.Multiply(in, h.D, jn, ds, block, 1, h.k.From(j0).X, h.k.Stride, 1, dq.From(i0).X, dq.Stride, true)
		}
	}
}

func (w *blocks[T]) addTo(h *Attender[T], dk, dv kernel.Rows[T]) {
	for j := range h.keys {
		add(dk.Row(j, h.D), w.dk[j*h.D:])
		add(dv.Row(j, h.V), w.dv[j*h.V:])
	}
}

func exp[T kernel.Float](x T) T { return T(math.Exp(float64(x))) }

func add[T kernel.Float](dst, src []T) {
	src = src[:len(dst)]
	for i, x := range src {
		dst[i] += x
	}
}
