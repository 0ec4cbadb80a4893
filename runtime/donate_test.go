package runtime_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/vjp"
)

// train is a step of gradient descent on Σ (p·x)² with momentum: it returns
// the loss, the new parameters and the new moments.
func train(t *testing.T) *graph.Program {
	return trace(t, func(tr *graph.Tracer) []*graph.Value {
		p, m, x := tr.Input("p", graph.F64, 8), tr.Input("m", graph.F64, 8), tr.Input("x", graph.F64, 8)
		loss := toy.Sum(toy.Square(toy.Mul(p, x)))
		g := vjp.Gradients(loss, p)[0]
		next := toy.Add(toy.Scale(0.5, m), g)
		return []*graph.Value{loss, toy.Add(p, toy.Scale(-0.01, next)), next}
	})
}

func step(t *testing.T, s *runtime.Session, in map[string]*runtime.Array) []*runtime.Array {
	t.Helper()
	out, err := s.Run(t.Context(), in)
	require.NoError(t, err)
	return out
}

func address(t *testing.T, a *runtime.Array, i int) *byte {
	t.Helper()
	return &toy.Part(t, a, i).Bytes()[0]
}

// A hundred steps with donated weights give the same numbers as a hundred steps
// without donation, and never copy the weights.
func TestDonation(t *testing.T) {
	for _, mesh := range []string{"", "a=2"} {
		run := func(donate map[string]int, steps int) (loss []float64, last *runtime.Array, where []*byte) {
			s := open(t, plan(t, train(t), toy.Setup{Mesh: mesh, Place: places(mesh, "p", "m", "x"), Donate: donate}), runtime.Options{})
			in, err := toy.Put(s, map[string]array.Array{"p": ramp(8), "m": f64(make([]float64, 8)...), "x": f64(1, 2, 3, 4, 5, 6, 7, 8)})
			require.NoError(t, err)
			for range steps {
				where = append(where, address(t, in["p"], 0))
				out := step(t, s, in)
				l, err := out[0].Get()
				require.NoError(t, err)
				loss = append(loss, l.Float64s()[0])
				in["p"], in["m"] = out[1], out[2]
			}
			return loss, in["p"], where
		}
		want, wantP, _ := run(nil, 100)
		got, gotP, where := run(map[string]int{"p": 1, "m": 2}, 100)
		require.Equal(t, want, got, mesh)
		if want[99] >= want[0]/2 {
			t.Errorf("mesh %q: the loss goes from %v to %v", mesh, want[0], want[99])
		}
		a, err := wantP.Get()
		require.NoError(t, err)
		b, err := gotP.Get()
		require.NoError(t, err)
		if !array.Equal(a, b) {
			t.Errorf("mesh %q: weights %v, want %v", mesh, b, a)
		}
		for i, w := range where {
			if w != where[0] {
				t.Errorf("mesh %q: step %d has the weights elsewhere", mesh, i)
				break
			}
		}
	}
}

// places splits every named input over a, if the mesh has it.
func places(mesh string, names ...string) map[string]string {
	out := map[string]string{}
	for _, n := range names {
		if mesh != "" {
			out[n] = "a"
		}
	}
	return out
}

func TestSpent(t *testing.T) {
	s := open(t, plan(t, train(t), toy.Setup{Donate: map[string]int{"p": 1}}), runtime.Options{})
	in, err := toy.Put(s, map[string]array.Array{"p": ramp(8), "m": ramp(8), "x": ramp(8)})
	require.NoError(t, err)
	old := in["p"]
	out := step(t, s, in)
	_, err = old.Get()
	require.EqualError(t, err, "runtime: get f64[8]: its memory was donated to p; use that step's result")
	_, err = s.Run(t.Context(), in)
	require.EqualError(t, err, "runtime: input p of p: the array's memory was donated to p; use that step's result")
	in["p"] = out[1]
	step(t, s, in)
}

// A step whose context has ended before it begins leaves its inputs, and the session, as they were.
func TestCancelledDonates(t *testing.T) {
	for _, mesh := range []string{"", "a=2"} {
		s := open(t, plan(t, train(t), toy.Setup{Mesh: mesh, Place: places(mesh, "p", "m", "x"), Donate: map[string]int{"p": 1}}), runtime.Options{})
		in, err := toy.Put(s, map[string]array.Array{"p": ramp(8), "m": ramp(8), "x": ramp(8)})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = s.Run(ctx, in)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, ramp(8).Float64s(), values(t, in["p"]))
		step(t, s, in)
	}
}

// If a result is written before the input is last read, the input's memory
// serves a result of the next step instead.
func TestDonationNotInPlace(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F64, 4)
		y := toy.Do("early", toy.Copy, x) // not an elementwise kernel, so not in place
		return []*graph.Value{y, toy.Square(x)}
	})
	l := plan(t, p, toy.Setup{Donate: map[string]int{"x": 0}})
	require.False(t, l.Donated[0].InPlace)
	s := open(t, l, runtime.Options{})
	x, err := s.Put("x", f64(1, 2, 3, 4))
	require.NoError(t, err)
	first := address(t, x, 0)
	seen := map[*byte]bool{}
	for range 10 {
		out := step(t, s, map[string]*runtime.Array{"x": x})
		y, err := out[1].Get()
		require.NoError(t, err)
		require.Equal(t, []float64{1, 4, 9, 16}, y.Float64s())
		seen[address(t, out[0], 0)], seen[address(t, out[1], 0)] = true, true
		x = out[0]
	}
	if !seen[first] {
		t.Error("the donated memory is not used again")
	}
}

// How much a step allocates does not depend on the number of steps: the
// hundredth allocates what the first ones do.
func TestAllocations(t *testing.T) {
	s := open(t, plan(t, train(t), toy.Setup{Donate: map[string]int{"p": 1, "m": 2}}), runtime.Options{})
	in, err := toy.Put(s, map[string]array.Array{"p": ramp(8), "m": ramp(8), "x": ramp(8)})
	require.NoError(t, err)
	one := func() {
		out := step(t, s, in)
		in["p"], in["m"] = out[1], out[2]
	}
	early := testing.AllocsPerRun(20, one)
	for range 200 {
		one()
	}
	late := testing.AllocsPerRun(20, one)
	if late > early {
		t.Errorf("%v allocations per step, then %v", early, late)
	}
	t.Logf("%v allocations per step of %d instructions", late, len(s.Plan().Instrs))
}

// Instructions and exchanges allocate nothing by themselves: a step of many
// allocates as often as a step of few.
func TestInstructionsAllocateNothing(t *testing.T) {
	for _, mesh := range []string{"", "a=2"} {
		allocs := func(n int) float64 {
			s := open(t, plan(t, trace(t, func(tr *graph.Tracer) []*graph.Value {
				x := tr.Input("x", graph.F64, 8)
				sums := []*graph.Value{}
				for range n {
					x = toy.Do("copy", toy.Copy, x)
					sums = append(sums, toy.Do("use", toy.Copy, toy.DoSum("part", first, x)))
				}
				// There is one result for every n, which uses all other values.
				return []*graph.Value{toy.DoSum("last", first, append(sums, x)...)}
			}), toy.Setup{Mesh: mesh, Place: places(mesh, "x")}), runtime.Options{})
			in, err := toy.Put(s, map[string]array.Array{"x": ramp(8)})
			require.NoError(t, err)
			return testing.AllocsPerRun(20, func() { step(t, s, in) })
		}
		few, many := allocs(3), allocs(60)
		if many > few+1 { // a goroutine's stack may grow
			t.Errorf("mesh %q: %v allocations with few instructions, %v with many", mesh, few, many)
		}
		t.Logf("mesh %q: %v allocations per step", mesh, many)
	}
}

// first is a kernel that writes the first element of its first argument.
func first(a *exec.Args) error {
	copy(a.Out[0].Bytes(), a.In[0].Bytes())
	return nil
}
