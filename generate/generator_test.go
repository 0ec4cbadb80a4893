package generate

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/ep"
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
	g, err := Open(t.Context(), m, c, o)
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

func generate(t *testing.T, g *Generator, r Request) (ids []int32, result Result) {
	t.Helper()
	result, err := g.Generate(context.Background(), r, func(x Token) bool {
		ids = append(ids, x.ID)
		return true
	})
	require.NoError(t, err)
	require.Equal(t, len(r.Prompt), result.Prompt)
	return ids, result
}

// all is the emit function that wants every token.
func all(Token) bool { return true }

// logitsOf computes the token that follows ids in the first slot, from position `at` on in steps of the given lengths.
func logitsOf(t *testing.T, g *Generator, ids []int32, lengths ...int) (logits []float32) {
	t.Helper()
	at := 0
	for _, n := range lengths {
		var err error
		logits, err = g.run(context.Background(), order{kind: last, slots: []int32{0}, start: []int32{int32(at)}, ids: ids[at : at+n]})
		require.NoError(t, err)
		at += n
	}
	require.Equal(t, len(ids), at)
	return logits
}

// Greedy tokens are transformers', or mlx-lm's of what it has quantised, and all tokens are the same on every mesh. What the caches hold is used again.
func TestGenerate(t *testing.T) {
	for name, meshes := range map[string][]string{"mixtral": {"", "ep=2", "ep=3", "ep=2,tp=2"}, "olmoe": {"", "ep=4", "ep=2,tp=2"}, "qwen3_moe": {"", "ep=5"}, "deepseek_v3": {"", "ep=4", "tp=2"}, "gpt_oss": {"", "ep=3"}, "mlx/qwen3_moe": {"", "ep=5"}, "mlx/deepseek_v3": {""}, "mlx/mixtral": {"", "ep=3"}} {
		prompt, rest := expected(t, name)
		var sampled string
		for _, mesh := range meshes {
			m, err := sharding.ParseMesh(mesh)
			require.NoError(t, err)
			g := open(t, name, Options{Config: gomoe.Config{Mesh: m}})
			got, _ := generate(t, g, Request{Prompt: prompt, N: 64})
			require.Equal(t, rest, got, "%s on mesh %q", name, mesh)

			long := append(append([]int32{}, prompt...), rest[:40]...)
			got, result := generate(t, g, Request{Prompt: long, N: 24})
			require.Equal(t, rest[40:], got, "%s on mesh %q, from the caches", name, mesh)
			require.Equal(t, len(long)-1, result.Reused, "the caches have all but the last token")

			got, result = generate(t, g, Request{Prompt: append(append([]int32{}, prompt[:3]...), 1, 2, 3), N: 30, Sampling: Sampling{Temperature: 1.5, Seed: 7}})
			require.Equal(t, 3, result.Reused)
			if mesh == "" {
				sampled = fmt.Sprint(got)
			} else if !strings.Contains(mesh, "tp") {
				require.Equal(t, sampled, fmt.Sprint(got), "%s on mesh %q, sampled", name, mesh)
			}
		}
	}
}

// A rank along tp has its part of the head, but for a head that is the table of tokens.
func TestHeadOnRanks(t *testing.T) {
	mesh, err := sharding.ParseMesh("tp=2")
	require.NoError(t, err)
	for name, want := range map[string]string{"mixtral": "f32[40@tp,16]", "mixtral_tied": "f32[40,16]"} {
		g := open(t, name, Options{Config: gomoe.Config{Mesh: mesh}, Room: 20})
		head := g.in["lm_head.weight"]
		if name == "mixtral_tied" {
			head = g.in["model.embed_tokens.weight"]
		}
		require.Equal(t, want, head.Spec.Format(head.Type))
		ids, _ := generate(t, g, Request{Prompt: []int32{1, 2, 3}, N: 10})
		one, _ := generate(t, open(t, name, Options{Room: 20}), Request{Prompt: []int32{1, 2, 3}, N: 10})
		require.Equal(t, one, ids, name)
	}
}

// A prompt of any length gives the bits of one that is computed token by token: blocks change nothing.
func TestBlocks(t *testing.T) {
	prompt, rest := expected(t, "olmoe")
	all := append(append([]int32{}, prompt...), rest...)
	g, slow := open(t, "olmoe", Options{Room: 80}), open(t, "olmoe", Options{Room: 80})
	ones := make([]int, len(all))
	for i := range ones {
		ones[i] = 1
	}
	require.Equal(t, logitsOf(t, slow, all, ones...), logitsOf(t, g, all, 32, 32, 1, 1, 1, 1, 1))
	require.Contains(t, g.jobs, shape{1, 32, false})
}

// Sums of rows that come home give logits close to those of one rank, and less close in 16 bits. A type without sums is an
// error.
func TestExchange(t *testing.T) {
	prompt, rest := expected(t, "olmoe")
	ids := append(append([]int32{}, prompt...), rest[:4]...)
	want := logitsOf(t, open(t, "olmoe", Options{Room: 20}), ids, 8, 1)
	mesh, err := sharding.ParseMesh("ep=2")
	require.NoError(t, err)
	cfg := gomoe.Config{Mesh: mesh}
	for _, c := range []struct {
		wire  graph.DType
		least float64 // of the largest difference, as a part of the largest logit
		most  float64
	}{{graph.NoDType, 0, 1e-5}, {graph.F32, 0, 1e-5}, {graph.F16, 1e-6, 2e-3}, {graph.BF16, 1e-5, 2e-2}} {
		got := logitsOf(t, open(t, "olmoe", Options{Config: cfg, Room: 20, Exchange: ep.Sum, Wire: c.wire}), ids, 8, 1)
		largest, off := 0.0, 0.0
		for i, x := range got {
			largest, off = max(largest, math.Abs(float64(want[i]))), max(off, math.Abs(float64(x)-float64(want[i])))
		}
		t.Logf("sums in %v: logits of up to %.3g are off by %.3g", c.wire, largest, off)
		if off < c.least*largest || off > c.most*largest {
			t.Errorf("sums in %v: logits of up to %g are off by %g", c.wire, largest, off)
		}
	}
	g := open(t, "olmoe", Options{Room: 20})
	_, err = Open(t.Context(), g.model, g.c, Options{Config: cfg, Room: 20, Wire: graph.BF16})
	require.ErrorContains(t, err, "wire=bf16 without exchange")
}

func TestCacheTypes(t *testing.T) {
	prompt, _ := expected(t, "olmoe")
	for _, d := range []graph.DType{graph.BF16, graph.F16} {
		g := open(t, "olmoe", Options{Cache: d, Room: 20})
		got, _ := generate(t, g, Request{Prompt: prompt, N: 8})
		require.Len(t, got, 8)
	}
}

func TestRefuses(t *testing.T) {
	g := open(t, "olmoe", Options{Room: 10})
	for _, c := range []struct {
		r    Request
		want string
	}{
		{Request{}, "generate: an empty prompt, want at least one token"},
		{Request{Prompt: []int32{1}, N: -1}, "generate: -1 tokens to generate, want at least 1, or 0"},
		{Request{Prompt: []int32{1, 40}, N: 1}, "generate: token 1 of the prompt is 40, want one of 0 to 39"},
		{Request{Prompt: []int32{1, 2, 3}, N: 9}, "need room for 11 positions, and there is room for 10; generate at most 8, or open the model with more room"},
		{Request{Prompt: make([]int32, 11)}, "a prompt of 11 tokens, and there is room for 10 positions; shorten it"},
		{Request{Prompt: []int32{1}, N: math.MaxInt}, "and there is room for 10"},
		{Request{Prompt: []int32{1}, N: 1, Sampling: Sampling{Temperature: -1}}, "generate: temperature -1, want a number from 0 to 3.4e+38"},
		{Request{Prompt: []int32{1}, Sampling: Sampling{Bias: map[int32]float64{40: 1}}}, "generate: token 40 has a bias, want one of 0 to 39"},
		{Request{Prompt: []int32{1}, Top: 21}, "the 21 most likely tokens, want 0 to 20"},
		{Request{Prompt: []int32{1}, Stops: []string{"a"}}, "no tokenizer"},
		{Request{Prompt: []int32{1}, Slide: true}, "say how many tokens to generate"},
		{Request{Prompt: []int32{1}, N: 1, Slide: true, Keep: 9}, "9 first tokens are to be kept, want 0 to 8"},
		{Request{Prompt: []int32{1}, N: 1, Keep: 1}, "which is for texts that slide"},
	} {
		_, err := g.Generate(context.Background(), c.r, all)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v\nwant %s", err, c.want)
		}
	}
	ids, _ := generate(t, g, Request{Prompt: []int32{1, 2, 3}, N: 8})
	require.Len(t, ids, 8)
	var room *RoomError
	_, err := g.Generate(context.Background(), Request{Prompt: []int32{1}, N: 11}, all)
	require.ErrorAs(t, err, &room)
	require.ErrorContains(t, g.Follow(context.Background(), context.Background()), "nobody to follow")
}

// Heads that do not divide are an error that begins with the mesh, and not with a line of a library's source.
func TestMeshOfHeads(t *testing.T) {
	c, err := checkpoint.Open("../models/testdata/mixtral")
	require.NoError(t, err)
	m, err := models.Open(c)
	require.NoError(t, err)
	mesh, err := sharding.ParseMesh("tp=3")
	require.NoError(t, err)
	_, err = Open(t.Context(), m, c, Options{Config: gomoe.Config{Mesh: mesh}, Room: 8})
	require.ErrorContains(t, err, `generate: on the mesh "tp=3", whose axis tp must split heads evenly, and columns of experts between blocks where weights are in blocks: `)
	require.ErrorContains(t, err, "do not divide alike over the 3 ranks of tp")
}

// Caches that are too large for the memory are refused before they are taken.
func TestNoRoom(t *testing.T) {
	c, err := checkpoint.Open("../models/testdata/olmoe")
	require.NoError(t, err)
	defer c.Close()
	m, err := models.Open(c)
	require.NoError(t, err)
	_, err = Open(t.Context(), m, c, Options{Room: 1 << 30})
	if err == nil || !strings.Contains(err.Error(), "weights, steps and caches with room for 1073741824 positions take 256.1 GiB") || !strings.Contains(err.Error(), "make less room") {
		t.Errorf("error %v", err)
	}
}
