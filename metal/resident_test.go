package metal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal/internal/standin"
	"github.com/gomoe/gomoe/primitives"
)

// Every buffer that a dispatch uses is in the residency set, from macOS 15 on: inputs, the arena,
// scratch memory and records. Older systems have no sets.
func TestResident(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x := primitives.Embedding(tr.Input("w", graph.F32, 5, 64), tr.Input("ids", graph.I32, 6))
		q := primitives.Reshape(x, 1, 6, 2, 32)
		out, _ := primitives.Attention(q, q, q, primitives.AttentionParams{})
		one, _ := primitives.Attention(primitives.Reshape(primitives.ReduceSum(q, 1), 1, 1, 2, 32), q, q, primitives.AttentionParams{})
		return []*graph.Value{out, one}
	})
	ids, err := array.Of([]int32{0, 1, 2, 3, 4, 0}, 6)
	require.NoError(t, err)
	for system, resident := range map[int]bool{14: false, 15: true} {
		d := with(t, standin.Options{Leader: true, System: system})
		cfg := gomoe.Config{}
		cfg.Device = d
		_, err := gomoe.Run(t.Context(), p, cfg, map[string]array.Array{"w": random(1, 5, 64), "ids": ids})
		require.NoError(t, err)
		done, _ := d.Counts()
		require.Positive(t, done.Dispatches)
		require.Equal(t, resident, done.NotResident == 0, "macOS %d: %d buffers of dispatches are not resident", system, done.NotResident)
	}
}
