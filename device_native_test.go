//go:build linux && native

package gomoe_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal/metaltest"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
)

// A program runs on the emulated GPU, with the host's numbers.
func TestRunOnDevice(t *testing.T) {
	d, err := gomoe.OpenDevice(t.Context(), "metal-emulated")
	metaltest.Compiled(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F32, 4)
		return []*graph.Value{primitives.Mul(x, x)}
	})
	require.NoError(t, err)
	x, err := array.Of([]float32{1, -2, 3, 0.5}, 4)
	require.NoError(t, err)
	out, err := gomoe.Run(t.Context(), p, gomoe.Config{Options: runtime.Options{Device: d}}, map[string]array.Array{"x": x})
	require.NoError(t, err)
	require.Equal(t, []float64{1, 4, 9, 0.25}, out[0].Float64s())
}
