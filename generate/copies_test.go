package generate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/sharding"
)

// With copies of experts, and with experts in ranges, logits have the bits of one rank without, whatever the
// files have: a tensor for all experts or for each, 8-bit floats with scales, blocks of 4 bits, and biases.
func TestCopiesOfExperts(t *testing.T) {
	for name, meshes := range map[string][]string{
		"mixtral":         {"", "ep=2", "ep=4", "dp=2,ep=2", "ep=0-4/5-6/7-9", "ep=10:3/1"},
		"olmoe":           {"ep=3"},
		"deepseek_v3_fp8": {"ep=2"},
		"gpt_oss_mxfp4":   {"ep=3"},
		"qwen2_moe":       {"ep=2"},
	} {
		prompt, rest := expected(t, name)
		ids := append(append([]int32{}, prompt...), rest[:4]...)
		want := logitsOf(t, open(t, name, Options{Room: 20}), ids, 8, 1)
		for _, mesh := range meshes {
			m, err := sharding.ParseMesh(mesh)
			require.NoError(t, err)
			further := 1
			if m.Ranges("ep") != nil {
				further = 0 // the ranges are of copies
			}
			asked := 0
			g := open(t, name, Options{Config: gomoe.Config{Mesh: m}, Room: 20, Copies: func(layer string, experts int) (ep.Copies, error) {
				asked++
				load := map[string][]float64{layer: make([]float64, experts)}
				for e := range experts {
					load[layer][e] = float64(1 + asked*e%7)
				}
				c, err := nn.BalanceCopies(m, further, load)(layer, experts)
				require.NoError(t, err, "%s on mesh %q", name, mesh)
				require.Greater(t, len(c), experts)
				return c, err
			}})
			require.Positive(t, asked)
			require.Equal(t, want, logitsOf(t, g, ids, 8, 1), "%s on mesh %q", name, mesh)
		}
	}
}

// Experts in ranges, or by shares of ranks, need no copies.
func TestRangesOfExperts(t *testing.T) {
	prompt, rest := expected(t, "mixtral")
	for _, mesh := range []string{"ep=0-3/4-5", "ep=6:5/1", "ep=none/0-5"} {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		got, _ := generate(t, open(t, "mixtral", Options{Config: gomoe.Config{Mesh: m}, Room: 20}), Request{Prompt: prompt, N: 8})
		require.Equal(t, rest[:8], got, mesh)
	}
}

func TestCopiesOfExpertsMistakes(t *testing.T) {
	g := open(t, "mixtral", Options{Room: 20})
	for want, c := range map[string]ep.Copies{
		"copies of the experts of model.layers.0.block_sparse_moe.: ep: copies: expert 5 has none of the 6 copies": {0, 1, 2, 3, 4, 4},
		"copy 6 is of expert 6, want 0 to 5": {0, 1, 2, 3, 4, 5, 6},
	} {
		_, err := Open(t.Context(), g.model, g.c, Options{Room: 20, Copies: func(string, int) (ep.Copies, error) { return c, nil }})
		require.ErrorContains(t, err, want)
	}
}
