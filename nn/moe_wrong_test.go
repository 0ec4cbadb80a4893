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
