package gomoe_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// TestInBlocksOfFewTokens refuses blocks of fewer tokens than ranks split them over, and says how many a block wants.
func TestInBlocksOfFewTokens(t *testing.T) {
	m, err := sharding.ParseMesh("ep=2")
	require.NoError(t, err)
	for rows, want := range map[int]string{
		1: "a block of 1 of 12 rows does not divide among the 2 ranks of ep, want blocks of a multiple of 2 rows",
		2: "",
		3: "i32[12,1], and dimension 0 of result 0, i32[3,4,1], do not divide alike over the 2 ranks of ep",
		4: "",
	} {
		p, err := graph.Trace("layer", func(t *graph.Tracer) []*graph.Value {
			x, logits, w := t.Input("x", graph.F32, 12, 4), t.Input("logits", graph.F32, 12, 4), t.Input("w", graph.F32, 4, 4, 4)
			weights, ids, _ := primitives.Route(primitives.RouteOp{TopK: 1}, logits, nil)
			r := primitives.Prepare(primitives.PrepareOp{Experts: 4}, ids)
			return []*graph.Value{primitives.InBlocks(rows, r, []*graph.Value{x, weights}, func(r primitives.Prepared, block []*graph.Value) *graph.Value {
				rows, _ := primitives.DispatchWeighted(r, block[0], block[1])
				return primitives.Combine(r, primitives.GroupedMatMul(r, rows, w))
			})}
		})
		require.NoError(t, err)
		split := sharding.Split("ep")
		_, err = gomoe.Compile(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": split, "logits": split, "w": split}})
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "in_blocks_test.go:")
	}
}
