package metal_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal"
	"github.com/gomoe/gomoe/metal/internal/standin"
	"github.com/gomoe/gomoe/primitives"
)

// Tensor operations are used where the GPU's family and the system have them, the compiler takes the
// kernels, and products come out right. Elsewhere the device says why not, and products are as before.
func TestTensors(t *testing.T) {
	edit := func(from, to string) func(string) string {
		return func(source string) string {
			if strings.HasPrefix(source, "#define TENSOR_OPS\n") {
				require.Equal(t, 1, strings.Count(source, from), from)
				return strings.Replace(source, from, to, 1)
			}
			return source
		}
	}
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x, w := tr.Input("x", graph.F32, 40, 24), tr.Input("w", graph.F32, 24, 70)
		y := primitives.MatMul(primitives.ConvertElementType(x, graph.BF16), primitives.ConvertElementType(w, graph.BF16))
		return []*graph.Value{primitives.ConvertElementType(y, graph.F32)}
	})
	in := map[string]array.Array{"x": random(1, 40, 24), "w": random(2, 24, 70)}
	want, err := gomoe.Run(t.Context(), p, gomoe.Config{}, in)
	require.NoError(t, err)
	for _, c := range []struct {
		name string
		o    standin.Options
		why  string // part of what the device says; "" if it has tensor operations
	}{
		{"M5", standin.Options{Family: 10, System: 26}, ""},
		{"M4", standin.Options{Family: 9, System: 26}, "from family Apple10 on, and this one is of family Apple9"},
		{"macOS 15", standin.Options{Family: 10, System: 15}, "older than macOS 26, the first with MSL 4.0"},
		{"refused", standin.Options{Family: 10, System: 26, Edit: edit("#include <metal_tensor>", "#error no tensors here")}, "no tensors here"},
		{"the other operand's layout", standin.Options{Family: 10, System: 26, Edit: edit("A_ACROSS, !B_ACROSS, false,", "A_ACROSS, B_ACROSS, false,")}, "of a product is"},
		{"another order of sums at some places", standin.Options{Family: 10, System: 26, Edit: edit("+ at[0]] = sums[i];", "+ at[0]] = at[0] == 1 ? (sums[i] + 64.0f) - 64.0f : sums[i];")}, "bits depend on the place in a tile"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Leader = true
			d := with(t, c.o)
			if c.why == "" {
				require.Empty(t, d.Tensors())
			} else {
				require.Contains(t, d.Tensors(), c.why)
			}
			cfg := gomoe.Config{}
			cfg.Device = d
			got, err := gomoe.Run(t.Context(), p, cfg, in)
			require.NoError(t, err)
			plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Target: d})
			require.NoError(t, err)
			functions, err := d.Functions(plan)
			require.NoError(t, err)
			require.Equal(t, c.why == "", slices.Contains(functions, "dot_general_tensor_bf16_nn"), "%s", functions)
			near(t, c.name, got[0], want[0])
		})
	}
}

// A caller who does not wait for the trial of tensor operations gets the reason, and no device. Nothing is
// done against Metal's rules, though the GPU has not ended.
func TestTensorsEnd(t *testing.T) {
	gone := errors.New("nobody waits")
	ctx, cancel := context.WithCancelCause(t.Context())
	slow := standin.Options{Family: 10, System: 26, Leader: true}
	leave := func() {}
	slow.Edit = func(source string) string {
		if !strings.HasPrefix(source, "#define TENSOR_OPS\n") {
			return source
		}
		leave()
		const begin = "  void spread() {\n    if (!any) {"
		require.Equal(t, 1, strings.Count(source, begin))
		// A product takes longer than the driver looks away.
		return strings.Replace(source, begin, "  void spread() {\n    volatile int n = 0;\n    for (int i = 0; i < 100000; i++) n = n + 1;\n    if (!any) {", 1)
	}
	d := with(t, slow)
	require.Empty(t, d.Tensors())
	ended, end := context.WithCancelCause(t.Context())
	end(gone)
	require.ErrorIs(t, d.Probe(ended), gone)

	leave = func() { cancel(gone) }
	_, err := metal.EmulatedWith(ctx, slow)
	require.ErrorIs(t, err, gone)
	require.ErrorContains(t, err, "metal: opening emulated GPU: ")
}
