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

// The logarithm of the sum is not lost next to a large element.
func TestLogSoftmaxLarge(t *testing.T) {
	for d, large := range map[graph.DType]float64{graph.F32: 1e17, graph.F64: 1e17, graph.BF16: 1e20} {
		for _, n := range []int{3, 40} {
			x := array.New(graph.T(d, n))
			x.Fill(large)
			out := compute(t, func(in []*graph.Value) []*graph.Value {
				y := primitives.LogSoftmax(in[0], 0)
				return []*graph.Value{y, vjp.Gradients(primitives.ReduceSum(primitives.Slice(y, []int{0}, []int{1}), 0), in[0])[0]}
			}, x)
			y, grad := out[0].Float64s(), out[1].Float64s()
			for i := range n {
				want := -1 / float64(n)
				if i == 0 {
					want++
				}
				require.InDelta(t, -math.Log(float64(n)), y[i], 2e-2, "%s: %v", d, y)
				require.InDelta(t, want, grad[i], 2e-2, "%s: gradient %v", d, grad)
			}
		}
	}
}
