package primitives_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// top_k takes NaNs of either sign as the largest, the lowest index first, as jax.lax.top_k
// does, in every float type and whichever way it selects.
func TestTopKNaN(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	x := []float64{1, -inf, math.Copysign(nan, -1), inf, math.Copysign(0, -1), 0, nan, -2}
	want := []int32{2, 6, 3, 0, 5, 4, 7, 1}
	for _, d := range []graph.DType{graph.F32, graph.F64, graph.BF16, graph.F16} {
		for _, c := range []struct{ k, more int }{{1, 0}, {3, 0}, {8, 0}, {3, 62}, {70, 62}} { // 65 and more are sorted
			row := slices.Clone(x)
			for range c.more {
				row = append(row, -inf)
			}
			p, err := gomoe.Parse("top.graph", fmt.Sprintf("program p(x %s[%d]) {\n v, i = top_k(x) k=%d\n return i\n}", d, len(row), c.k))
			require.NoError(t, err)
			a := array.New(graph.T(d, len(row)))
			require.NoError(t, a.SetFloat64s(row))
			out, err := gomoe.Run(t.Context(), p, gomoe.Config{}, map[string]array.Array{"x": a})
			require.NoError(t, err)
			got := array.Data[int32](out[0])
			if n := min(c.k, len(want)); !slices.Equal(got[:n], want[:n]) {
				t.Errorf("%s, k=%d of %d: %v, want %v", d, c.k, len(row), got[:n], want[:n])
			}
		}
	}
}
