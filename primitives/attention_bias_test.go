package primitives_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// A query with a bias of -Inf for all keys it sees contributes nothing to the bias's derivative.
func TestAttentionBiasGradNothingSeen(t *testing.T) {
	inf := math.Inf(-1)
	for _, p := range []primitives.AttentionParams{{Full: true}, {}, {Window: 1}} {
		q, bias := array.New(graph.T(graph.F32, 1, 2, 1, 1)), array.New(graph.T(graph.F32, 1, 1, 2, 2))
		q.Fill(1)
		require.NoError(t, bias.SetFloat64s([]float64{inf, inf, 1, 2}))
		in := []array.Array{q, bias}
		for range 2 {
			out := compute(t, func(in []*graph.Value) []*graph.Value {
				p := p
				p.Bias = in[1]
				if len(in) == 3 {
					p.Lengths = in[2]
				}
				out, _ := primitives.Attention(in[0], in[0], in[0], p)
				return []*graph.Value{vjp.Gradients(primitives.ReduceSum(primitives.Square(out), 0, 1, 2, 3), in[1])[0]}
			}, in...)
			for _, g := range out[0].Float64s() {
				require.InDelta(t, 0, g, 1e-6, "%+v: %v", p, out[0])
			}
			lengths, err := array.Of([]int32{2}, 1)
			require.NoError(t, err)
			in = append(in, lengths)
		}
	}
}
