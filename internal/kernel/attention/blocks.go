package attention

import (
	"math"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// attentionBlock is the number of queries and the number of keys in a block. They are
// equal, so that the causal mask cuts only blocks on the diagonal.
const attentionBlock = 64

// blocks is attention by the products of package gemm, for float64, for NEON and for the
// portable kernels.
type blocks[T kernel.Float] struct {
	vec         kernel.Kind
	work        gemm.Workspace[T]
	p, ds, sums []T // scores, then powers; their cotangents; weighted sums of values
	delta       []T // dout[i]·out[i] - dlse[i]
	dk, dv      []T
	top, total  [attentionBlock]T // of each query: the largest score, and the sum of p
}

func (w *blocks[T]) forward(h *Attender[T], q, out Rows[T], lse []T, from, to int) {
	const block = attentionBlock
	p, sums := kernel.Take(h.dry, &w.p, block*block), kernel.Take(h.dry, &w.sums, block*h.D)
	// A dry run also visits the last but one of the blocks of queries: it is whole and, unlike
	// the first, sees keys that are not cut.
	for i0 := from; i0 < to; i0 = max(i0+block, h.dry.Next(i0, block, to)-block) {
		in := min(block, to-i0)
		for i := range in {
			w.top[i], w.total[i] = T(math.Inf(-1)), 0
		}
		clear(sums)
		keys := h.S // up to the end of the last block
		if h.Causal {
			keys = min(keys, i0+block)
		}
		for j0 := 0; j0 < keys; j0 = h.dry.Next(j0, block, keys) {
			jn := min(block, keys-j0)
			w.work.Multiply(in, jn, h.D, q.from(i0), q.Stride, 1, h.k.from(j0), 1, h.k.Stride, p, block, false)
			cut := h.Causal && j0 == i0
			for i := range in {
				row, seen := kernel.From(p, i*block), jn
				if cut {
					seen = i + 1
				}
				if h.dry == nil {
					w.powers(row[:seen], i, h.Scale, sums[i*h.D:][:h.D])
				}
				if cut {
					w.work.Multiply(1, h.D, seen, row, block, 1, h.v.from(j0), h.v.Stride, 1, kernel.From(sums, i*h.D), h.D, true)
				}
			}
			if !cut {
				w.work.Multiply(in, h.D, jn, p, block, 1, h.v.from(j0), h.v.Stride, 1, sums, h.D, true)
			}
		}
		for i := range h.dry.Times(in) {
			row := out.row(i0+i, h.D)
			for x, y := range sums[i*h.D:][:h.D] {
				row[x] = y / w.total[i]
			}
			lse[i0+i] = w.top[i] + T(math.Log(float64(w.total[i])))
		}
	}
}

// powers replaces the scores of query i of a block by their powers, and scales down the sums
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

func (w *blocks[T]) backward(h *Attender[T], q, out Rows[T], lse []T, dout Rows[T], dlse []T, dq Rows[T], from, to int) {
	const block = attentionBlock
	p, ds := kernel.Take(h.dry, &w.p, block*block), kernel.Take(h.dry, &w.ds, block*block)
	dk, dv, delta := kernel.Take(h.dry, &w.dk, h.S*h.D), kernel.Take(h.dry, &w.dv, h.S*h.D), kernel.Take(h.dry, &w.delta, to-from)
	for i := from; i < from+h.dry.Times(to-from); i++ {
		d := T(0)
		o := out.row(i, h.D)
		for x, y := range dout.row(i, h.D) {
			d += T(y * o[x])
		}
		if dlse != nil {
			d -= dlse[i]
		}
		delta[i-from] = d
		clear(dq.row(i, h.D))
	}
	clear(dk[:h.dry.Times(h.keys*h.D)])
	clear(dv[:h.dry.Times(h.keys*h.D)])
	for j0 := 0; j0 < h.keys; j0 = h.dry.Next(j0, block, h.keys) {
		jn := min(block, h.keys-j0)
		i0 := from
		if h.Causal {
			i0 = max(i0, j0)
		}
		for ; i0 < to; i0 = h.dry.Next(i0, block, to) {
			in := min(block, to-i0)
			w.work.Multiply(in, jn, h.D, q.from(i0), q.Stride, 1, h.k.from(j0), 1, h.k.Stride, p, block, false)
			w.work.Multiply(in, jn, h.D, dout.from(i0), dout.Stride, 1, h.v.from(j0), 1, h.v.Stride, ds, block, false)
			for i := range h.dry.Times(in) {
				s, d := p[i*block:][:jn], ds[i*block:][:jn]
				if h.Causal && j0 == i0 {
					clear(s[i+1:])
					clear(d[i+1:])
					s, d = s[:i+1], d[:i+1]
				}
				vector.AttentionGrad(w.vec, s, d, h.Scale, lse[i0+i], delta[i0+i-from])
			}
			w.work.Multiply(jn, h.D, in, p, 1, block, dout.from(i0), dout.Stride, 1, kernel.From(dv, j0*h.D), h.D, true)
			w.work.Multiply(jn, h.D, in, ds, 1, block, q.from(i0), q.Stride, 1, kernel.From(dk, j0*h.D), h.D, true)
			w.work.Multiply(in, h.D, jn, ds, block, 1, h.k.from(j0), h.k.Stride, 1, dq.from(i0), dq.Stride, true)
		}
	}
}

func (w *blocks[T]) addTo(h *Attender[T], dk, dv Rows[T]) {
	for j := range h.keys {
		add(dk.row(j, h.D), w.dk[j*h.D:])
		add(dv.row(j, h.D), w.dv[j*h.D:])
	}
}

func exp[T kernel.Float](x T) T { return T(math.Exp(float64(x))) }

func add[T kernel.Float](dst, src []T) {
	src = src[:len(dst)]
	for i, x := range src {
		dst[i] += x
	}
}
