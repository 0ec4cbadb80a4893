package generate

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/sharding"
)

func open(t *testing.T, name string, o Options) *Generator {
	t.Helper()
	c, err := checkpoint.Open(filepath.Join("../models/testdata", name))
	require.NoError(t, err)
	m, err := models.Open(c)
	require.NoError(t, err)
	g, err := Open(m, c, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

// expected returns a prompt of 5 tokens, and the 64 that transformers generates from it.
func expected(t *testing.T, name string) (prompt, rest []int32) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../models/testdata", name, "expected.json"))
	require.NoError(t, err)
	var e struct{ Generated []int32 }
	require.NoError(t, json.Unmarshal(text, &e))
	return e.Generated[:5], e.Generated[5:]
}

func generate(t *testing.T, g *Generator, prompt []int32, n int, s Sampling) (ids []int32, times Times) {
	t.Helper()
	times, err := g.Generate(context.Background(), prompt, n, s, func(x Token) bool {
		ids = append(ids, x.ID)
		return true
	})
	require.NoError(t, err)
	return ids, times
}

// Greedy tokens are transformers', and all tokens are the same on every mesh. What the caches hold is used again.
func TestGenerate(t *testing.T) {
	for name, meshes := range map[string][]string{"mixtral": {"", "ep=2", "ep=3", "ep=2,tp=2"}, "olmoe": {"", "ep=4", "ep=2,tp=2"}, "qwen3_moe": {"", "ep=5"}} {
		prompt, rest := expected(t, name)
		var sampled string
		for _, mesh := range meshes {
			m, err := sharding.ParseMesh(mesh)
			require.NoError(t, err)
			g := open(t, name, Options{Config: gomoe.Config{Mesh: m}})
			got, _ := generate(t, g, prompt, 64, Sampling{})
			require.Equal(t, rest, got, "%s on mesh %q", name, mesh)

			long := append(append([]int32{}, prompt...), rest[:40]...)
			got, times := generate(t, g, long, 24, Sampling{})
			require.Equal(t, rest[40:], got, "%s on mesh %q, from the caches", name, mesh)
			require.Equal(t, 1, times.Prompt, "the caches have all but the last token")

			got, times = generate(t, g, append(append([]int32{}, prompt[:3]...), 1, 2, 3), 30, Sampling{Temperature: 1.5, Seed: 7})
			require.Equal(t, 3, times.Prompt)
			if mesh == "" {
				sampled = fmt.Sprint(got)
			} else if !strings.Contains(mesh, "tp") {
				require.Equal(t, sampled, fmt.Sprint(got), "%s on mesh %q, sampled", name, mesh)
			}
		}
	}
}

// A prompt of any length gives the bits of one that is computed token by token: blocks change nothing.
func TestBlocks(t *testing.T) {
	prompt, rest := expected(t, "olmoe")
	all := append(append([]int32{}, prompt...), rest...)
	g, slow := open(t, "olmoe", Options{Room: 80}), open(t, "olmoe", Options{Room: 80})
	for i := range all {
		_, err := slow.run(context.Background(), all[:i+1])
		require.NoError(t, err)
	}
	one, err := slow.run(context.Background(), append(all, 3))
	require.NoError(t, err)
	many, err := g.run(context.Background(), append(all, 3))
	require.NoError(t, err)
	require.Equal(t, one, many)
	require.Len(t, g.jobs, 2, "blocks of 32 and 1")
}

func TestCacheTypes(t *testing.T) {
	prompt, _ := expected(t, "olmoe")
	for _, d := range []graph.DType{graph.BF16, graph.F16} {
		g := open(t, "olmoe", Options{Cache: d, Room: 20})
		got, _ := generate(t, g, prompt, 8, Sampling{})
		require.Len(t, got, 8)
	}
}

func TestRefuses(t *testing.T) {
	g := open(t, "olmoe", Options{Room: 10})
	for _, c := range []struct {
		prompt []int32
		n      int
		s      Sampling
		want   string
	}{
		{nil, 1, Sampling{}, "generate: an empty prompt, want at least one token"},
		{[]int32{1}, 0, Sampling{}, "generate: 0 tokens to generate, want at least 1"},
		{[]int32{1, 40}, 1, Sampling{}, "generate: token 1 of the prompt is 40, want one of 0 to 39"},
		{[]int32{1, 2, 3}, 9, Sampling{}, "need room for 11 positions, and there is room for 10; generate at most 8, or open the model with more room"},
		{[]int32{1}, 1, Sampling{Temperature: -1}, "generate: temperature -1, want a finite number of at least 0"},
	} {
		_, err := g.Generate(context.Background(), c.prompt, c.n, c.s, func(Token) bool { return true })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v\nwant %s", err, c.want)
		}
	}
	ids, _ := generate(t, g, []int32{1, 2, 3}, 8, Sampling{})
	require.Len(t, ids, 8)

	// A step that was given up has lost the caches.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, first := g.Generate(ctx, []int32{4}, 1, Sampling{}, func(Token) bool { return true })
	require.ErrorIs(t, first, context.Canceled)
	_, err := g.Generate(context.Background(), []int32{4}, 1, Sampling{}, func(Token) bool { return true })
	require.ErrorIs(t, err, context.Canceled)
}

// Caches that are too large for the memory are refused before they are taken.
func TestNoRoom(t *testing.T) {
	c, err := checkpoint.Open("../models/testdata/olmoe")
	require.NoError(t, err)
	defer c.Close()
	m, err := models.Open(c)
	require.NoError(t, err)
	_, err = Open(m, c, Options{Room: 1 << 30})
	if err == nil || !strings.Contains(err.Error(), "weights and caches with room for 1073741824 positions take 256 GiB") || !strings.Contains(err.Error(), "make less room") {
		t.Errorf("error %v", err)
	}
}
