package attention

import (
	"fmt"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// Sequences of several spans: queries that come alone, and queries whose spans are computed one
// by one and joined, get the bits of queries that come together. Rows fill
// vectors, or do not.
func TestAttentionSpans(t *testing.T) {
	attentionSpans(t, 20, 17)
	attentionSpans(t, 32, 16)
}

func attentionSpans(t *testing.T, d, v int) {
	for _, vec := range attentionVectors() {
		for _, c := range []struct {
			s, window  int
			bias, sink bool
		}{{2*span + 100, 0, false, false}, {2*span + 100, span + 50, false, true}, {span + 70, 0, true, true}, {3 * span, 40, false, true}} {
			whole := narrowed(kitOf(Attention[float64]{S: c.s, R: c.s, D: d, V: v, Scale: 0.3, Causal: true, Window: c.window}, c.bias, c.sink, 9))
			out, lse := whole.run(vec)
			for i := 0; i < c.s; i++ {
				if i%span > 2 && i%span < span-2 && i%191 != 0 && i < c.s-3 {
					continue
				}
				what := fmt.Sprintf("%v %d %d %+v: query %d", vec, d, v, c, i)
				one := whole
				one.S, one.R, one.At = 1, i+1, i
				one.q = one.q[i*d:][:d]
				if i%2 == 0 { // there are no keys behind the last
					one.k, one.v = one.k[:(i+1)*d], one.v[:(i+1)*v]
				}
				if c.bias {
					one.bias = one.bias[i*c.s:]
				}
				if c.sink {
					one.sinks = one.sinks[i:]
				}
				o, l := one.run(vec)
				numbers.SameBits(t, what, o, out[i*v:][:v])
				numbers.SameBits(t, what+", lse", l, lse[i:i+1])

				clear(o)
				clear(l)
				first, end := one.Spans()
				size := one.SpanSums(1)
				parts := make([]float32, (end-first+1)*size)
				for k := end - 1; k >= first; k-- {
					h := one.attend(nil, vec, rowsOf(one.k, d), rowsOf(one.v, v))
					h.Span(rowsOf(one.q, d), one.terms(), 0, 1, k, parts[(k-first)*size:])
					h.Release()
				}
				one.Join(parts, parts[(end-first)*size:], rowsOf(o, v), l, one.terms(), 0, 1)
				numbers.SameBits(t, what+" in spans", o, out[i*v:][:v])
				numbers.SameBits(t, what+" in spans, lse", l, lse[i:i+1])
			}
			// Two queries at once: the second has all keys of the first.
			last := whole
			last.S, last.At, last.q = 2, c.s-2, last.q[(c.s-2)*d:]
			if c.bias {
				last.bias = last.bias[(c.s-2)*c.s:]
			}
			if c.sink {
				last.sinks = last.sinks[c.s-2:]
			}
			first, end := last.Spans()
			size := last.SpanSums(2)
			parts, o, l := make([]float32, (end-first+1)*size), make([]float32, 2*v), make([]float32, 2)
			h := last.attend(nil, vec, rowsOf(last.k, d), rowsOf(last.v, v))
			for k := range end - first {
				h.Span(rowsOf(last.q, d), last.terms(), 0, 2, first+k, parts[k*size:])
			}
			h.Release()
			last.Join(parts, parts[(end-first)*size:], rowsOf(o, v), l, last.terms(), 0, 2)
			numbers.SameBits(t, fmt.Sprintf("%v %+v: the last two queries", vec, c), o, out[(c.s-2)*v:])
			numbers.SameBits(t, fmt.Sprintf("%v %+v: the last two queries, lse", vec, c), l, lse[c.s-2:])
		}
	}
}

// Few queries that attend to the same keys, whose lanes are keys, have the bits of the same
// queries among many, whose lanes are queries: with keys that end anywhere in a group, from
// any key on, with every option, of any element type, in rows with gaps between.
func TestAttentionOfFew(t *testing.T) {
	for _, size := range [][2]int{{16, 16}, {32, 48}, {64, 16}, {128, 128}, {16, 240}} {
		d, v := size[0], size[1]
		for keys := 1; keys < 2*span+40; keys += 1 + keys*(3+d%5)/16 {
			for _, from := range []int{0, 17, 96, keys - 1} {
				if from >= keys {
					continue
				}
				c := narrowed(kitOf(Attention[float64]{S: fewMost + 3, R: keys, D: d, V: v, Scale: 0.3, From: from, Cap: float64(keys%2) * 3}, keys%3 == 0, keys%4 == 0, 21))
				kind := []graph.DType{graph.F32, graph.BF16, graph.F16, graph.Q8_0}[keys%4]
				if d%32 != 0 || v%32 != 0 {
					kind = graph.F32
				}
				k, x := array.New(graph.T(kind, keys, 2*d)), array.New(graph.T(kind, keys, 3*v))
				kernels := func(vec kernel.Kind, n int) (out, lse []float32) {
					few := c
					few.S = n
					h := few.attend(nil, vec, kernel.Rows[float32]{}, kernel.Rows[float32]{})
					if kind == graph.F32 {
						h.k, h.v = kernel.Rows[float32]{X: array.Data[float32](k)[d:], Stride: 2 * d}, kernel.Rows[float32]{X: array.Data[float32](x)[v:], Stride: 3 * v}
					} else {
						h.kept = [2]Stored{{k, d, 2 * d}, {x, v, 3 * v}}
					}
					defer h.Release()
					out, lse = make([]float32, n*v), make([]float32, n)
					h.Forward(rowsOf(few.q, d), rowsOf(out, v), lse, few.terms(), 0, n)
					return out, lse
				}
				fill := func(a array.Array, row, at, n int, from []float32) {
					all := make([]float64, keys*row)
					for i, y := range from {
						all[i/n*row+at+i%n] = float64(y)
					}
					if err := a.SetFloat64s(all); err != nil {
						t.Fatal(err)
					}
				}
				fill(k, 2*d, d, d, c.k)
				fill(x, 3*v, v, v, c.v)
				for _, vec := range attentionVectors() {
					want, wantLSE := kernels(vec, fewMost+3)
					for n := 1; n <= fewMost; n++ {
						out, lse := kernels(vec, n)
						what := fmt.Sprintf("%v D=%d V=%d: %d queries, %d keys of %v from %d on", vec, d, v, n, keys, kind, from)
						numbers.SameBits(t, what, out, want[:n*v])
						numbers.SameBits(t, what+", lse", lse, wantLSE[:n])
					}
				}
			}
		}
	}
}
