package generate

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/sharding"
)

// What is planned without opening anything is what an open model holds. A rank without experts needs less.
func TestPlan(t *testing.T) {
	c, err := checkpoint.Open("../models/testdata/mixtral")
	require.NoError(t, err)
	defer c.Close()
	m, err := models.Open(c)
	require.NoError(t, err)
	for _, mesh := range []string{"", "ep=3", "ep=2,tp=2", "dp=2"} {
		on, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		o := Options{Config: gomoe.Config{Mesh: on}, Room: 40, Sequences: 3}
		ranks, err := Plan(t.Context(), m, c, o)
		require.NoError(t, err)
		require.Len(t, ranks, on.Ranks())
		g, err := Open(t.Context(), m, c, o)
		require.NoError(t, err)
		want := g.Memory()
		want.Mapped = 0
		for rank, got := range ranks {
			require.Equal(t, want, got, "%s, rank %d", mesh, rank)
		}
		require.NoError(t, g.Close())
	}
	on, err := sharding.ParseMesh("ep=0-4/5")
	require.NoError(t, err)
	ranks, err := Plan(t.Context(), m, c, Options{Config: gomoe.Config{Mesh: on}, Room: 40})
	require.NoError(t, err)
	if ranks[0].Weights <= ranks[1].Weights || ranks[0].Caches != ranks[1].Caches {
		t.Errorf("%+v, want more weights on the rank with five experts", ranks)
	}
	_, err = Plan(t.Context(), m, c, Options{Room: -1})
	require.ErrorContains(t, err, "room for -1 positions")
	on, err = sharding.ParseMesh("tp=3")
	require.NoError(t, err)
	_, err = Plan(t.Context(), m, c, Options{Config: gomoe.Config{Mesh: on}})
	require.ErrorContains(t, err, `on the mesh "tp=3", whose axis tp must split heads evenly`)
}

// Of the last layer, a prompt computes keys and values of all tokens, and the rest of the last one alone.
func TestLastLayerOfLastToken(t *testing.T) {
	c, err := checkpoint.Open(writeGGUF(t, graph.Q8_0, false, nil))
	require.NoError(t, err)
	defer c.Close()
	m, err := models.Open(c)
	require.NoError(t, err)
	o, err := Options{}.usual(m)
	require.NoError(t, err)
	p, _, err := newGenerator(m, c, o).program(shape{1, 8, false})
	require.NoError(t, err)
	tokens := map[string][]int{}
	for _, e := range p.Eqns {
		switch name := e.Prim.Name(); name {
		case "router":
			tokens[name] = append(tokens[name], e.In[0].Dim(0))
		case "attention":
			tokens[name] = append(tokens[name], e.In[0].Dim(1))
		case "cache_update":
			tokens[name] = append(tokens[name], e.In[1].Dim(1))
		}
	}
	require.Equal(t, map[string][]int{"router": {1}, "cache_update": {8, 8}, "attention": {1}}, tokens)
}

// Compiling ends with its context: of Open, of Plan, and with Close of a step that comes later.
func TestCompileEndsWithContext(t *testing.T) {
	why := errors.New("why")
	ctx, end := context.WithCancelCause(t.Context())
	end(why)
	g := open(t, "olmoe", Options{Room: 40}) // which compiles steps of 1 and of 32 tokens
	_, err := Open(ctx, g.model, g.c, Options{Room: 30})
	require.ErrorIs(t, err, why)
	_, err = Plan(ctx, g.model, g.c, Options{Room: 30})
	require.ErrorIs(t, err, why)
	g.close(ErrClosed) // as Close does while a step is compiled
	_, err = g.Generate(t.Context(), Request{Prompt: make([]int32, 2), N: 1}, nil)
	require.ErrorContains(t, err, "emit is nil")
	_, err = g.Generate(t.Context(), Request{Prompt: make([]int32, 9), N: 1}, all)
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, g.Err())
}
