package generate

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// A Generator continues from the states that another one has kept, with the bits of a text computed from its first token.
func TestStatesKept(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 2))
	a, b := tokens(r, 30), tokens(r, 20)
	logits := func(g *Generator, prompt []int32) (all [][]float32, r Result) {
		r, err := g.Generate(t.Context(), Request{Prompt: prompt, N: 4, Logits: true}, func(x Token) bool {
			all = append(all, x.Logits)
			return true
		})
		require.NoError(t, err)
		return all, r
	}
	mesh, err := sharding.ParseMesh("ep=2,tp=2")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		model func(Options) *Generator
		o     Options
		cut   int // tokens reused of a text that shares 17 with a
	}{
		"rows":    {func(o Options) *Generator { return open(t, "olmoe", o) }, Options{}, 17},
		"q8_0":    {func(o Options) *Generator { return open(t, "gpt_oss_mxfp4", o) }, Options{Cache: graph.F16}, 17},
		"carried": {func(o Options) *Generator { return hybrid(t, o) }, Options{}, 16},
		"mesh":    {func(o Options) *Generator { return hybrid(t, o) }, Options{Config: gomoe.Config{Mesh: mesh}}, 16},
	} {
		o := c.o
		o.Room, o.Snapshots, o.Sequences = 60, 8, 4
		plain := c.model(o)
		o.States = filepath.Join(t.TempDir(), "states")
		first := c.model(o)
		logits(first, a)
		logits(first, b)
		_, err := Open(t.Context(), first.model, first.c, o)
		require.ErrorContains(t, err, "another run writes to", name)
		require.NoError(t, first.Close())
		o.Room = 50
		second := c.model(o)
		for _, x := range []struct {
			prompt []int32
			reused int
		}{{b, 19}, {a, 29}, {append(append([]int32{}, a[:17]...), b[:9]...), c.cut}} {
			want, _ := logits(plain, x.prompt)
			got, r := logits(second, x.prompt)
			require.Equal(t, want, got, name)
			require.Equal(t, x.reused, r.Reused, name)
		}
		require.NoError(t, second.Close())

		o.Room = 20 // the texts are longer
		third := c.model(o)
		_, r := logits(third, a[:5])
		require.Zero(t, r.Reused)
		require.NoError(t, third.Close())
	}
}

// The states of another model, of another mesh or of other weights, and a damaged file, are refused and stay there.
func TestStatesRefused(t *testing.T) {
	dir := t.TempDir()
	o := Options{Room: 20, States: dir}
	g := open(t, "olmoe", o)
	generate(t, g, Request{Prompt: []int32{1, 2, 3}, N: 3})
	require.NoError(t, g.Close())
	path := filepath.Join(dir, StatesName)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	refused := func(want, model string, o Options) {
		t.Helper()
		other := open(t, model, Options{Room: 20})
		_, err := Open(t.Context(), other.model, other.c, o)
		require.ErrorContains(t, err, "generate: "+path+": "+want)
		require.ErrorContains(t, err, "; remove the file, or give another folder")
		var states *StatesError
		require.ErrorAs(t, err, &states)
		same, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, same)
	}
	refused("the states are of another model, of other weights, or of caches of another type", "mixtral", o)
	refused("the states are of another model, of other weights, or of caches of another type", "olmoe", Options{Room: 20, States: dir, Cache: graph.BF16})
	m, err := sharding.ParseMesh("ep=2")
	require.NoError(t, err)
	refused(`the states are of the mesh "", want "ep=2"`, "olmoe", Options{Room: 20, States: dir, Config: gomoe.Config{Mesh: m}})
	text = text[:len(text)-1]
	require.NoError(t, os.WriteFile(path, text, 0o666))
	refused("safetensors: ", "olmoe", o)
}
