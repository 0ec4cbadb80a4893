package primitives_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// Layers whose number of experts is not that of their logits or weights, and an update
// that divides 0 by 0, are refused when they are traced, at the line that makes them.
func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		build func(*graph.Tracer) *graph.Value
		want  string
	}{
		{func(tr *graph.Tracer) *graph.Value {
			_, experts, _ := primitives.Route(primitives.RouteOp{TopK: 2}, tr.Input("x", graph.F32, 8, 6), nil)
			return primitives.Prepare(primitives.PrepareOp{Experts: 4}, experts).Value
		}, "misuse_test.go:21: prepare: 4 experts, but the choices are made of logits f32[8,6] for 6; give PrepareOp.Experts as many"},
		{func(tr *graph.Tracer) *graph.Value {
			_, experts := primitives.TopK(tr.Input("x", graph.F32, 8, 6), 2)
			return primitives.Prepare(primitives.PrepareOp{Experts: 4}, experts).Value
		}, "misuse_test.go:25: prepare: 4 experts, but the choices are made of logits f32[8,6] for 6"},
		{func(tr *graph.Tracer) *graph.Value {
			r := primitives.Prepare(primitives.PrepareOp{Experts: 4}, tr.Input("i", graph.I32, 8, 2))
			rows := primitives.Dispatch(r, tr.Input("x", graph.F32, 8, 3))
			return primitives.Combine(r, primitives.GroupedMatMul(r, rows, tr.Input("w", graph.F32, 8, 3, 5)))
		}, "misuse_test.go:30: grouped_matmul: weights f32[8,3,5] of 8 experts, but tokens were routed to 4; give PrepareOp.Experts as many"},
		{func(tr *graph.Tracer) *graph.Value {
			r := primitives.Prepare(primitives.PrepareOp{Experts: 4}, tr.Input("i", graph.I32, 8, 2))
			rows := primitives.Dispatch(r, tr.Input("x", graph.F32, 8, 3))
			return primitives.Combine(r, primitives.GroupedMatMulTransposed(r, rows, tr.Input("w", graph.F32, 2, 5, 3)))
		}, "misuse_test.go:35: grouped_matmul: weights f32[2,5,3] of 2 experts, but tokens were routed to 4"},
		{func(tr *graph.Tracer) *graph.Value {
			x, s, n := tr.Input("x", graph.F32, 3), tr.Input("s", graph.F32), tr.Input("n", graph.I32)
			p, _, _ := primitives.AdamW(x, x, x, x, s, n, s, primitives.AdamWOp{})
			return p
		}, "eps=0 makes 0/0 of a gradient that is 0; want a number above 0, such as eps=1e-08"},
	} {
		_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value { return []*graph.Value{c.build(tr)} })
		require.ErrorContains(t, err, c.want)
	}
}
