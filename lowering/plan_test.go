package lowering_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

func trace(t *testing.T, fn func(*graph.Tracer) []*graph.Value) *graph.Program {
	t.Helper()
	p, err := graph.Trace("p", fn)
	require.NoError(t, err)
	return p
}

func plan(t *testing.T, p *graph.Program, s toy.Setup) *lowering.Plan {
	t.Helper()
	l, err := toy.Plan(p, s)
	require.NoError(t, err)
	return l
}

// text returns the plan's text without source lines.
func text(l *lowering.Plan) string {
	return regexp.MustCompile(` # .*`).ReplaceAllString(l.String(), "")
}

// descent is a step of gradient descent on Σ (w·x)².
func descent(tr *graph.Tracer) []*graph.Value {
	w, x := tr.Input("w", graph.F32, 8), tr.Input("x", graph.F32, 8)
	loss := toy.Sum(toy.Square(toy.Mul(w, x)))
	g := vjp.Gradients(loss, w)[0]
	return []*graph.Value{loss, toy.Add(w, toy.Scale(-0.5, g))}
}

// The plan's text shows the exchanges, the places in the arena, and which result uses the
// memory of which input.
func TestPlanText(t *testing.T) {
	l := plan(t, trace(t, descent), toy.Setup{Mesh: "a=2", Place: map[string]string{"w": "a", "x": "a"}, Donate: map[string]int{"w": 1}})
	require.Equal(t, `plan p mesh "a=2" ranks=2 arena=256
	in  w            f32[8@a] b0@in
	in  x            f32[8@a] b1@in
	  0   b2@0 f32[4] = mul(b0@in, b1@in)
	  1   b3@64 f32[4] = square(b2@0)
	  2   b4@192 f32[] = sum(b3@64)
	  3   b5@128 f32[] = full() value=1 dtype=f32
	  4   b6@64 f32[4] = spread(b5@128) shape=[8]
	  5   b7@128 f32[4] = mul(b6@64, b2@0)
	  6   b8@0 f32[4] = scale(b7@128) by=2
	  7   b9@64 f32[4] = mul(b8@0, b1@in)
	  8   b11@0 f32[4] = scale(b10@64) by=-0.5
	  9   b12@in f32[4] = add(b0@in, b11@0)
	 10 ⇄ b13@out f32[] = all_sum(b4@192) over a #0 f32 4 bytes
	out v3           f32[] b13@out
	out v11          f32[8@a] b12@in takes over w in place
`, text(l))
}

// Ranks compare hashes. So equal plans have equal hashes, whenever and wherever
// they are made, and plans that differ in anything have different hashes.
func TestHash(t *testing.T) {
	setup := toy.Setup{Mesh: "a=2,b=2", Place: map[string]string{"w": "a", "x": "a"}, Donate: map[string]int{"w": 1}}
	p := trace(t, descent)
	first := plan(t, p, setup)
	for range 20 {
		again := plan(t, trace(t, descent), setup)
		if again.Hash() != first.Hash() {
			t.Fatalf("another plan of the same program:\n%s\n%s", first, again)
		}
	}
	hashes := map[string]string{first.Hash(): "itself"}
	for name, other := range map[string]*lowering.Plan{
		"mesh":   plan(t, p, toy.Setup{Mesh: "a=2,b=4", Place: setup.Place, Donate: setup.Donate}),
		"axis":   plan(t, p, toy.Setup{Mesh: "a=2,b=2", Place: map[string]string{"w": "b", "x": "b"}, Donate: setup.Donate}),
		"whole":  plan(t, p, toy.Setup{Mesh: "a=2,b=2", Donate: setup.Donate}),
		"donate": plan(t, p, toy.Setup{Mesh: "a=2,b=2", Place: setup.Place}),
		"rate": plan(t, trace(t, func(tr *graph.Tracer) []*graph.Value {
			out := descent(tr)
			return []*graph.Value{out[0], toy.Scale(2, out[1])}
		}), setup),
	} {
		if same, ok := hashes[other.Hash()]; ok {
			t.Errorf("a plan with another %s has the hash of %s", name, same)
		}
		hashes[other.Hash()] = name
	}
}

// Equations that no result depends on are left out, and so is the value whose placement
// place_like uses.
func TestDeadCode(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F32, 8)
		toy.Square(toy.Scale(3, x))
		like := toy.Scale(5, x)
		return []*graph.Value{tr.Apply(graph.PlaceLikeOp{}, toy.Scale(7, x), like)[0]}
	})
	l := plan(t, p, toy.Setup{})
	require.Len(t, l.Instrs, 1, l.String())
	require.Equal(t, " by=7", graph.ParamString(l.Instrs[0].Prim))
}

// Each rank makes its part of zeros for a value that is split, not the whole.
func TestZerosArePlaced(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		w, x := tr.Input("w", graph.F32, 64), tr.Input("x", graph.F32, 64)
		return []*graph.Value{vjp.Gradients(toy.Sum(x), w)[0]}
	})
	l := plan(t, p, toy.Setup{Mesh: "a=4", Place: map[string]string{"w": "a"}})
	require.Len(t, l.Instrs, 1, l.String())
	require.Equal(t, "f32[16]", l.Bufs[l.Instrs[0].Out[0]].Type.String())
	require.Zero(t, l.Arena)
}

func TestDonate(t *testing.T) {
	build := func(fn func(x, y *graph.Value) []*graph.Value) *graph.Program {
		return trace(t, func(tr *graph.Tracer) []*graph.Value {
			return fn(tr.Input("x", graph.F32, 8), tr.Input("y", graph.F32, 8))
		})
	}
	for _, c := range []struct {
		name    string
		fn      func(x, y *graph.Value) []*graph.Value
		inPlace bool
	}{
		{"elementwise", func(x, y *graph.Value) []*graph.Value { return []*graph.Value{toy.Add(y, x)} }, true},
		{"read before", func(x, y *graph.Value) []*graph.Value {
			return []*graph.Value{toy.Do("late", toy.Copy, toy.Add(x, y))}
		}, true},
		{"returned as it is", func(x, y *graph.Value) []*graph.Value { return []*graph.Value{x} }, true},
		{"not used at all", func(x, y *graph.Value) []*graph.Value { return []*graph.Value{y} }, true},
		{"through a flat view", func(x, y *graph.Value) []*graph.Value {
			return []*graph.Value{toy.Add(toy.Flatten(x), y)}
		}, true},
		{"kernel reads it while it writes", func(x, y *graph.Value) []*graph.Value {
			return []*graph.Value{toy.Do("mix", toy.Copy, x)}
		}, false},
		{"read later", func(x, y *graph.Value) []*graph.Value {
			return []*graph.Value{toy.Add(x, y), toy.Mul(x, y)}
		}, false},
		{"returned too", func(x, y *graph.Value) []*graph.Value { return []*graph.Value{toy.Add(x, y), x} }, false},
	} {
		l := plan(t, build(c.fn), toy.Setup{Donate: map[string]int{"x": 0}})
		if len(l.Donated) != 1 || l.Donated[0].InPlace != c.inPlace {
			t.Errorf("%s: donations %+v, want in place: %v\n%s", c.name, l.Donated, c.inPlace, l)
		}
		root := l.Bufs[l.Root(l.Out[0].Buf)].Storage
		if (root == lowering.Input) != c.inPlace {
			t.Errorf("%s: result has storage %d\n%s", c.name, root, l)
		}
	}
	add := build(func(x, y *graph.Value) []*graph.Value { return []*graph.Value{toy.Add(x, y), toy.Sum(x)} })
	for _, c := range []struct {
		donate map[string]int
		place  map[string]string
		want   string
	}{
		{map[string]int{"z": 0, "v": 1}, nil, "lowering: there is no input v of p to donate"},
		{map[string]int{"x": 2}, nil, "lowering: input x is donated to result 2, but p has 2 results"},
		{map[string]int{"x": -1}, nil, "lowering: input x is donated to result -1, but p has 2 results"},
		{map[string]int{"x": 1}, nil, "lowering: input x f32[8] cannot be donated to result v2 f32[]; want the same type and placement"},
		{map[string]int{"y": 0}, map[string]string{"x": "a"}, "lowering: input y f32[8] cannot be donated to result v1 f32[8@a]; want the same type and placement"},
		{map[string]int{"x": 0, "y": 0}, nil, "lowering: inputs x and y are both donated to result "},
	} {
		_, err := toy.Plan(add, toy.Setup{Mesh: "a=2", Place: c.place, Donate: c.donate})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v: %v, want %s", c.donate, err, c.want)
		}
	}
}

// Every result has memory of its own, which is not an input's.
func TestResultsHaveOwnMemory(t *testing.T) {
	l := plan(t, trace(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F32, 2, 2)
		y := toy.Square(x)
		return []*graph.Value{x, x, y, y, toy.Flatten(x), toy.Flatten(y), tr.Apply(graph.FullOp{DType: graph.F32})[0]}
	}), toy.Setup{})
	seen := map[int]bool{}
	var names []string
	for _, o := range l.Out {
		root := l.Root(o.Buf)
		if seen[root] || l.Bufs[root].Storage != lowering.Output {
			t.Errorf("result %s shares memory or has storage %d\n%s", o.Name, l.Bufs[root].Storage, l)
		}
		seen[root] = true
		names = append(names, o.Name)
	}
	require.Equal(t, "x x_1 v1 v1_1 v2 v3 v4", strings.Join(names, " "))
}

func TestLowerErrors(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		return graph.Apply(placedOnly{}, tr.Input("x", graph.F32, 8))
	})
	_, err := toy.Plan(p, toy.Setup{Mesh: "a=2", Place: map[string]string{"x": "a"}})
	require.ErrorContains(t, err, "plan_test.go:")
	require.ErrorContains(t, err, ": placed_only(f32[8@a]): the primitive has no lowering rule")
	var e *graph.Error
	require.ErrorAs(t, err, &e)
}

// Results have the names that they are given, and numbers where one repeats.
func TestResultNames(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F32, 2)
		return []*graph.Value{x, toy.Square(x), toy.Square(x)}
	})
	a, err := sharding.Propagate(t.Context(), p, sharding.Mesh{}, nil)
	require.NoError(t, err)
	l, err := lowering.Lower(t.Context(), a, lowering.Options{Names: []string{"v7", "y", "y"}})
	require.NoError(t, err)
	var names []string
	for _, o := range l.Out {
		names = append(names, o.Name)
	}
	require.Equal(t, []string{"v7", "y", "y_1"}, names)
	_, err = lowering.Lower(t.Context(), a, lowering.Options{Names: []string{"y"}})
	require.EqualError(t, err, "lowering: 1 names for the results of p, want 3")
}
