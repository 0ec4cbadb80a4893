package sharding_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// weights is a program with the inputs of a model of two layers.
func weights(t *testing.T) *graph.Program {
	t.Helper()
	p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		for _, name := range []string{"x", "layers.0.experts.up", "layers.0.gate", "layers.1.experts.up", "layers.1.gate", "a*"} {
			tr.Input(name, graph.F32, 8, 4)
		}
		return nil
	})
	require.NoError(t, err)
	return p
}

func TestPlaceByPattern(t *testing.T) {
	for _, tt := range []struct {
		place map[string]string
		want  []string // of x, layer 0, layer 1, a*
		wrong string
	}{
		{place: map[string]string{"layers.*.experts.*": "ep"}, want: []string{"", "ep,_", "", "ep,_", "", ""}},
		{place: map[string]string{"*": "ep"}, want: []string{"ep,_", "ep,_", "ep,_", "ep,_", "ep,_", "ep,_"}},
		{place: map[string]string{"layers*up": "ep", "layers.1.*": "ep", "layers.1.experts.up": "_,dp"}, want: []string{"", "ep,_", "", "_,dp", "ep,_", ""}},
		{place: map[string]string{"a*": "ep"}, want: []string{"", "", "", "", "", "ep,_"}},
		{place: map[string]string{"layers.*": "ep", "*.gate": "ep"}, want: []string{"", "ep,_", "ep,_", "ep,_", "ep,_", ""}},
		// Axes that the mesh does not have count as axes of size 1.
		{place: map[string]string{"x": "tp.dp,pp", "layers.*": "tp"}, want: []string{"dp,_", "", "", "", "", ""}},

		{place: map[string]string{"layers.*": "ep", "*.gate": "_"}, wrong: "sharding: input layers.0.gate: the pattern *.gate says _ and the pattern layers.* says ep; place layers.0.gate by its name"},
		{place: map[string]string{"layer.*.experts.*": "ep"}, wrong: "sharding: no input of program p matches layer.*.experts.*; did you mean layers.0.experts.up or layers.1.experts.up?; its inputs are x, layers.0.experts.up, "},
		{place: map[string]string{"*.up*.no": "ep"}, wrong: "sharding: no input of program p matches *.up*.no; its inputs are x, "},
		{place: map[string]string{"layers.0.gat": "ep"}, wrong: "sharding: program p has no input layers.0.gat to place; did you mean layers.0.gate or layers.1.gate?; its inputs are x, "},
		{place: map[string]string{"x*": "ep,dp,dp"}, wrong: "sharding: input x: the placement ep,dp,dp has 3 entries for f32[8,4], want at most 2"},
		{place: map[string]string{"x": "ep,_,tp"}, wrong: "sharding: input x: the placement ep,_,tp has 3 entries for f32[8,4], want at most 2"}, // no axis tp
	} {
		a, err := propagate(t, weights(t), "dp=2,ep=2", tt.place)
		if tt.wrong != "" {
			require.ErrorContains(t, err, tt.wrong)
			continue
		}
		require.NoError(t, err, "%v", tt.place)
		for i, v := range a.Program.In {
			require.True(t, a.Spec[v].Equal(spec(t, tt.want[i])), "%v: %s is %s, want %s", tt.place, v.Name, a.Spec[v], tt.want[i])
		}
	}
}

// A result takes the placement of the input that is donated to it.
func TestDonate(t *testing.T) {
	p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		tr.Input("acc", graph.F32, 8)
		x := tr.Input("x", graph.F32, 8)
		zeros := tr.Apply(graph.FullOp{DType: graph.F32, Shape: []int{8}})[0]
		return []*graph.Value{zeros, x}
	})
	require.NoError(t, err)
	a, err := propagate(t, p, "dp=2,ep=2", map[string]string{"acc": "ep"})
	require.NoError(t, err)
	require.True(t, a.Out[0].Whole())
	require.NoError(t, a.Donate(map[string]int{"acc": 0, "none": 0, "x": 7}))
	require.Equal(t, "ep", a.Out[0].String())
	require.True(t, a.Out[1].Whole())
	require.NoError(t, a.Donate(map[string]int{"acc": 1}))
	require.Equal(t, "ep", a.Out[1].String())
}

// An axis that no mesh can have is no axis of size 1.
func TestPlaceAxisNames(t *testing.T) {
	mesh, err := sharding.ParseMesh("dp=2,ep=2")
	require.NoError(t, err)
	for axes, want := range map[string]string{
		"dp,ep":     `sharding: input x: the placement dp,ep: "dp,ep" is no axis name; give Split one argument per dimension, as in Split("dp", "ep"), and dots between the axes of one, as in Split("dp.ep")`,
		"dp ep":     `"dp ep" is no axis name, want a letter and then letters or digits`,
		"dp=2":      `"dp=2" is no axis name`,
		"dp..ep":    `"" is no axis name`,
		"{+dp, ep}": `"dp, ep" is no axis name`,
	} {
		_, err := sharding.Propagate(t.Context(), weights(t), mesh, map[string]sharding.Spec{"x": sharding.Split(axes)})
		require.ErrorContains(t, err, want)
	}
	for _, axes := range []string{"", "_", "dp.ep", "tp", "{+dp}"} {
		_, err := sharding.Propagate(t.Context(), weights(t), mesh, map[string]sharding.Spec{"x": sharding.Split(axes)})
		require.NoError(t, err, axes)
	}
}
