package primitives_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// A finite number too large for a float type is refused, as is one for an integer type.
func TestFullTooLarge(t *testing.T) {
	full := func(x float64, d graph.DType) error {
		_, err := graph.Trace("p", func(t *graph.Tracer) []*graph.Value { return []*graph.Value{primitives.Full(t, x, d)} })
		return err
	}
	require.ErrorContains(t, full(1e300, graph.F32), "full: 1e+300")
	require.ErrorContains(t, full(-1e39, graph.BF16), "full: -1e+39")
	require.ErrorContains(t, full(65520, graph.F16), "full: 65520")
	for _, x := range []float64{math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat32, 1e-300} {
		require.NoError(t, full(x, graph.F32))
	}
	require.NoError(t, full(1e300, graph.F64))
	require.NoError(t, full(65519, graph.F16))
}
