package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// A layer without experts, or of which a token wants more than there are, says which fields say so.
func TestNoExperts(t *testing.T) {
	for _, m := range []nn.MoE{{Width: 8, Route: primitives.RouteOp{TopK: 2}}, {Experts: 4, Width: 8}, {Experts: 4, Width: 8, Route: primitives.RouteOp{TopK: 5}}} {
		_, err := graph.Trace("p", func(t *graph.Tracer) []*graph.Value {
			y, _ := m.Apply(nn.New(t, nn.Options{}).In("mlp", ""), t.Input("x", graph.F32, 1, 4, 8))
			return []*graph.Value{y}
		})
		require.ErrorContains(t, err, "layer of experts mlp: MoE.Experts is ")
		require.ErrorContains(t, err, "want at least 1 of both")
	}
}

// Attention without heads, or with heads of keys that do not divide them, is an error of the trace.
func TestAttentionWithoutHeads(t *testing.T) {
	for _, a := range []nn.Attention{{}, {Heads: 2, Width: 4}, {Heads: 3, KVHeads: 2, Width: 4}, {Heads: 2, KVHeads: 2}} {
		_, err := graph.Trace("t", func(tr *graph.Tracer) []*graph.Value {
			s := nn.New(tr, nn.Options{})
			return []*graph.Value{a.Apply(s, tr.Input("x", graph.F32, 1, 3, 8), nil)}
		})
		require.ErrorContains(t, err, "want at least 1 of each")
	}
}
