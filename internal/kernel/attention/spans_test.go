package attention

import (
	"fmt"
	"testing"

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
