package generate

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// decayed is linear attention with a fixed decay, with the parameters of OLMoE's attention.
type decayed struct{ nn.Attention }

func (a decayed) Apply(s *nn.Scope, x *graph.Value, st *nn.Step) *graph.Value {
	b, n := x.Dim(0), x.Dim(1)
	project := func(name, norm string) *graph.Value {
		y := nn.Linear{Out: a.Heads * a.Width}.Apply(s.In(name+"_proj", ""), x)
		if norm != "" {
			y = nn.RMSNorm{Epsilon: a.Epsilon}.Apply(s.In(norm, ""), y)
		}
		return primitives.Reshape(y, b, n, a.Heads, a.Width)
	}
	decays := primitives.Full(x.Tracer(), math.Log(0.9), graph.F32, b, n, a.Heads)
	state := nn.Carry{Name: "state", Type: graph.T(graph.F32, 1, a.Heads, a.Width, a.Width), Place: []string{"", "tp"}}
	y := st.Carry(s, []nn.Carry{state}, func(x, states []*graph.Value) (*graph.Value, []*graph.Value) {
		y, next := primitives.Recurrence(x[0], x[1], x[2], x[3], primitives.RecurrenceParams{State: states[0]})
		return y, []*graph.Value{next}
	}, project("q", "q_norm"), project("k", "k_norm"), project("v", ""), decays)
	return nn.Linear{Out: x.Dim(2)}.Apply(s.In("o_proj", ""), primitives.Reshape(st.Tail(y), b, st.Tail(y).Dim(1), a.Heads*a.Width))
}

// hybrid opens OLMoE's small model with a carried state in every second layer.
func hybrid(t *testing.T, o Options) *Generator {
	t.Helper()
	text, err := os.ReadFile("../models/testdata/olmoe/config.json")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(strings.Replace(string(text), `"olmoe"`, `"hybrid_moe"`, 1)), 0o666))
	weights, err := filepath.Abs("../models/testdata/olmoe/model.safetensors")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(weights, filepath.Join(dir, "model.safetensors")))
	c, err := checkpoint.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	m, err := models.Open(c, models.Family{Name: "hybrid_moe", Experts: "num_experts", Open: func(r *models.Reader) (*models.Model, error) {
		d := models.ReadDecoder(r)
		a := models.ReadAttention(r, d)
		a.Norm = nn.Together
		a.Clip = r.NumberOr(models.Keys{"clip_qkv"}, 0)
		d.Attention = func(l int) models.Mixer {
			if l%2 == 1 {
				return decayed{a}
			}
			return a
		}
		moe := nn.MoE{Experts: r.Experts(), Width: r.Size(models.Keys{"intermediate_size"}),
			Route: primitives.RouteOp{TopK: r.Size(models.Keys{"num_experts_per_tok"}), Renormalize: r.FlagOr(models.Keys{"norm_topk_prob"}, false)}}
		d.Experts("mlp", moe, 0, nil)
		return d.Model(r, moe.Experts, moe.Route.TopK)
	}})
	require.NoError(t, err)
	g, err := Open(t.Context(), m, c, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

func tokens(r *rand.Rand, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.Int32N(40)
	}
	return ids
}

// Carried states continue from live ones, from the last snapshot in a shared prefix, or from nothing, of the same slot or
// another, and logits have the bits of a generator that has seen no other text.
func TestCarried(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	a, b := tokens(r, 40), tokens(r, 60)
	g := hybrid(t, Options{Room: 120, Snapshots: 16, Sequences: 2})
	check := func(name string, prompt []int32, n, reused int) []int32 {
		t.Helper()
		logits := func(g *Generator) (all [][]float32, ids []int32, result Result) {
			result, err := g.Generate(t.Context(), Request{Prompt: prompt, N: n, Logits: true}, func(x Token) bool {
				all, ids = append(all, x.Logits), append(ids, x.ID)
				return true
			})
			require.NoError(t, err, name)
			return all, ids, result
		}
		want, _, first := logits(hybrid(t, Options{Room: 120, Snapshots: 100}))
		require.Zero(t, first.Reused)
		got, ids, result := logits(g)
		require.Equal(t, want, got, name)
		require.Equal(t, reused, result.Reused, name)
		return append(append([]int32{}, prompt...), ids...)
	}
	all := check("nothing", a, 12, 0)
	check("the same prompt, from the snapshot before its last token", a, 3, 39)
	check("from a snapshot in the middle", append(append([]int32{}, a[:25]...), b...), 4, 16)
	check("another text, in the other slot", b, 8, 0)
	next := append(append([]int32{}, all...), b[:5]...)
	check("a continued text, of which the other slot has a part", next, 5, 16)
	next = check("the continued text again", next, 5, len(next)-1)
	check("from the live state", append(append([]int32{}, next...), 7, 8), 5, len(next)-1)
	check("a text of one token", a[:1], 5, 0)
	check("a shorter text, before any snapshot", a[:9], 5, 0)
}

// Texts that are generated at once, and a text that slides, have the tokens of each alone.
func TestCarriedTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 2))
	shared := tokens(r, 33)
	var requests []Request
	for i := range 9 {
		q := Request{Prompt: append(append([]int32{}, shared[:11*(i%4)]...), tokens(r, 1+i)...), N: 20, Sampling: Sampling{Temperature: 1, Seed: uint64(i)}}
		if i%2 == 1 {
			q.N, q.Slide, q.Keep = 70, true, 3
		}
		requests = append(requests, q)
	}
	for _, mesh := range []string{"", "ep=2", "ep=2,tp=2"} {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		g := hybrid(t, Options{Config: gomoe.Config{Mesh: m}, Room: 64, Snapshots: 8, Sequences: 3})
		var group sync.WaitGroup
		got := make([][]int32, len(requests))
		for i, q := range requests {
			group.Go(func() {
				_, err := g.Generate(t.Context(), q, func(x Token) bool { got[i] = append(got[i], x.ID); return true })
				require.NoError(t, err)
			})
		}
		group.Wait()
		for i, q := range requests {
			want, _ := generate(t, hybrid(t, Options{Room: 64, Snapshots: 100}), q)
			require.Equal(t, want, got[i], "request %d on mesh %q", i, mesh)
		}
	}
}

// The memory of states has their snapshots, as planned.
func TestCarriedMemory(t *testing.T) {
	o := Options{Room: 64, Snapshots: 16, Sequences: 2}
	g := hybrid(t, o)
	m := g.Memory()
	a := g.model
	state := int64(4 * 16 * a.HeadWidth) // f32, in one of two layers; heads times width is 16
	require.Equal(t, 2*(64/16+2)*state, m.Snapshots)
	planned, err := Plan(t.Context(), g.model, g.c, o)
	require.NoError(t, err)
	require.Equal(t, m.Caches, planned[0].Caches)
	require.Equal(t, m.Snapshots, planned[0].Snapshots)
	require.Equal(t, m.Weights, planned[0].Weights)
	require.Zero(t, open(t, "olmoe", Options{Room: 64}).Memory().Snapshots)
	_, err = Open(t.Context(), g.model, g.c, Options{Snapshots: -1})
	require.ErrorContains(t, err, "snapshots every -1 positions")
}
