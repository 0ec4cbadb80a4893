package measure

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// Instructions in the bodies of loops are measured like others.
func TestRunLoops(t *testing.T) {
	p, err := graph.Trace("looped", func(tr *graph.Tracer) []*graph.Value {
		x, w := tr.Input("x", graph.F32, 8, 32), tr.Input("w", graph.F32, 3, 32)
		out, _ := graph.Scan(graph.ScanParams{}, []*graph.Value{primitives.ReduceSum(x, 0)}, []*graph.Value{w}, func(carry, w []*graph.Value) (next, each []*graph.Value) {
			wide := primitives.BroadcastTo(primitives.Reshape(carry[0], 1, 32), 8, 32)
			return []*graph.Value{primitives.ReduceSum(primitives.RMSNorm(wide, w[0], 1e-5), 0)}, nil
		})
		return out
	})
	require.NoError(t, err)
	c := Case{Name: "looped", Kernels: []string{"rms_norm"}, Program: p}
	d := emulated(t)
	for _, off := range []float32{0, 1e-3} {
		spoil := func(a, _ array.Array) { array.Data[float32](a)[3] += off }
		var rows []Row
		require.NoError(t, Run(t.Context(), spoiled{Device: d, spoil: spoil}, []Case{c}, Options{Runs: 1}, func(r Row) { rows = append(rows, r) }))
		require.Len(t, rows, 1)
		if r := rows[0]; r.Instruction != "rms_norm" || r.Wrong() != (off > 0) || r.Host <= 0 || r.GPU <= 0 {
			t.Errorf("%v off: %+v", off, r)
		}
	}
}
