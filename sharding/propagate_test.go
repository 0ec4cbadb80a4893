package sharding_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/sharding"
)

// here returns its caller's line as errors print it.
func here() string {
	_, file, line, _ := runtime.Caller(1)
	return graph.Pos{File: file, Line: line}.String()
}

func trace(t *testing.T, fn func(*graph.Tracer) []*graph.Value) *graph.Program {
	t.Helper()
	p, err := graph.Trace("p", fn)
	require.NoError(t, err)
	return p
}

func propagate(t *testing.T, p *graph.Program, m string, place map[string]string) (*sharding.Assignment, error) {
	t.Helper()
	in := map[string]sharding.Spec{}
	for name, s := range place {
		in[name] = spec(t, s)
	}
	return sharding.Propagate(t.Context(), p, mesh(t, m), in)
}

// A flexible value has a placement for each use: full and spread are split here
// and whole there.
func TestFlexibleUses(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x, y, c := tr.Input("x", graph.F32, 8), tr.Input("y", graph.F32, 8), tr.Input("c", graph.F32)
		ones := tr.Apply(graph.FullOp{Value: 1, DType: graph.F32, Shape: []int{8}})[0].Named("ones")
		cs := toy.Spread(c, 8).Named("cs")
		return []*graph.Value{toy.Add(x, ones), toy.Add(y, ones), toy.Mul(x, cs), toy.Mul(y, cs), ones, cs}
	})
	a, err := propagate(t, p, "a=2,b=2", map[string]string{"x": "a", "y": "b.a"})
	require.NoError(t, err)
	require.Equal(t, `program p(x f32[8@a], y f32[8@b.a], c f32[]) {
	ones f32[8@a] = full() value=1 dtype=f32 shape=[8]
	cs f32[8@a] = spread(c) shape=[8]
	v1 f32[8@a] = add(x, ones)
	v2 f32[8@b.a] = add(y, ones)
	v3 f32[8@a] = mul(x, cs)
	v4 f32[8@b.a] = mul(y, cs)
	return v1, v2, v3, v4, ones, cs
}
`, a.Format())
	var out []string
	for i, s := range a.Out {
		out = append(out, s.Format(p.Out[i].Type))
	}
	require.Equal(t, "f32[8@a] f32[8@b.a] f32[8@a] f32[8@b.a] f32[8] f32[8]", strings.Join(out, " "))
}

// A sum over a split dimension stays pending until an equation needs it.
func TestPendingUntilNeeded(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F32, 8)
		s := toy.Sum(x)
		twice := tr.Apply(graph.AddAnyOp{}, s, s)[0]
		return []*graph.Value{toy.Scale(2, twice), toy.Square(s)}
	})
	a, err := propagate(t, p, "a=2", map[string]string{"x": "a"})
	require.NoError(t, err)
	require.Equal(t, `program p(x f32[8@a]) {
	v1 f32[]{+a} = sum(x)
	v2 f32[]{+a} = add_any(v1, v1)
	v3 f32[]{+a} = scale(v2) by=2
	v4 f32[] = square(v1)
	return v3, v4
}
`, a.Format())
	require.True(t, a.Out[0].Whole(), "results have no sum pending")
}

func TestPlaceLike(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x, y := tr.Input("x", graph.F32, 8), tr.Input("y", graph.I32, 8)
		return []*graph.Value{tr.Apply(graph.PlaceLikeOp{}, x, y)[0], tr.Apply(graph.PlaceLikeOp{}, toy.Add(x, x), y)[0]}
	})
	a, err := propagate(t, p, "a=2,b=2", map[string]string{"x": "a", "y": "b"})
	require.NoError(t, err)
	require.Equal(t, "f32[8@b] f32[8@b]", a.Out[0].Format(p.Out[0].Type)+" "+a.Out[1].Format(p.Out[1].Type))
}

func TestPropagateErrors(t *testing.T) {
	var at string
	add := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x, y := tr.Input("x", graph.F32, 8), tr.Input("y", graph.F32, 8)
		z := toy.Add(x, y)
		at = here() // one line below
		return []*graph.Value{z}
	})
	var n int
	_, err := fmt.Sscanf(at, "propagate_test.go:%d", &n)
	require.NoError(t, err)
	line := fmt.Sprintf("propagate_test.go:%d: ", n-1)

	_, err = propagate(t, add, "a=2,b=2", map[string]string{"x": "a", "y": "b"})
	require.EqualError(t, err, line+"add(f32[8@a], f32[8@b]): dimension 0 of argument 0 is split over a and dimension 0 of argument 1 over b; bring one to the other with sharding_constraint")
	var e *graph.Error
	require.ErrorAs(t, err, &e)

	for _, c := range []struct {
		place map[string]string
		want  string
	}{
		{map[string]string{"z": "a", "v": "a"}, "sharding: program p has no input v to place; its inputs are "},
		{map[string]string{"x": "_,a"}, "sharding: input x: the placement _,a has 2 entries for f32[8], want at most 1"},
	} {
		_, err := propagate(t, add, "a=2,b=2", c.place)
		require.ErrorContains(t, err, c.want)
	}
	_, err = sharding.Propagate(t.Context(), add, mesh(t, "a=2"), map[string]sharding.Spec{"x": {Ragged: rows}})
	require.ErrorContains(t, err, "sharding: input x: inputs are whole, split or pending, not ragged")

	x := graph.T(graph.F32, 4)
	for want, fn := range map[string]func(*graph.Tracer) []*graph.Value{
		"opaque(f32[4@a]): the primitive has no placement rule": func(tr *graph.Tracer) []*graph.Value {
			return []*graph.Value{toy.Opaque(tr.Input("x", x.DType, x.Shape...))}
		},
		"flatten(f32[4@a]): dimension 0 of argument 0 is split over a and must be whole here; gather it with sharding_constraint": func(tr *graph.Tracer) []*graph.Value {
			return []*graph.Value{toy.Flatten(tr.Input("x", x.DType, x.Shape...))}
		},
		"lazy(f32[4@a]): the placement rule answered for 0 arguments and 0 results, want 1 and 1": func(tr *graph.Tracer) []*graph.Value {
			return graph.Apply(lazy{}, tr.Input("x", x.DType, x.Shape...))
		},
		// A flexible result whose rule wants its argument moved is refused, also if
		// it is used only as a result of the program.
		"greedy(f32[4@a]): f32[4@a] is needed as f32[4]: dimension 0 would have to move between ranks": func(tr *graph.Tracer) []*graph.Value {
			return graph.Apply(greedy{}, tr.Input("x", x.DType, x.Shape...))
		},
	} {
		_, err := propagate(t, trace(t, fn), "a=2", map[string]string{"x": "a"})
		if err == nil || !strings.HasPrefix(err.Error(), "propagate_test.go:") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// lazy is a primitive whose placement rule decides nothing.
type lazy struct{}

func (lazy) Name() string                                           { return "lazy" }
func (lazy) Infer(in []graph.Type) ([]graph.Type, error)            { return in, nil }
func (lazy) Shard(*sharding.Context) (d sharding.Decision, _ error) { return d, nil }

// greedy is a flexible primitive whose rule wants its argument whole.
type greedy struct{ lazy }

func (greedy) Name() string { return "greedy" }

func (greedy) Shard(*sharding.Context) (sharding.Decision, error) {
	return sharding.Decision{In: make([]sharding.Spec, 1), Out: make([]sharding.Spec, 1)}, nil
}

func (greedy) ShardAs(_ *sharding.Context, out sharding.Spec) (sharding.Decision, error) {
	return sharding.Decision{In: make([]sharding.Spec, 1), Out: []sharding.Spec{out}}, nil
}
