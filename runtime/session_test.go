package runtime_test

import (
	"context"
	"errors"
	"fmt"
	gort "runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// trace returns the program of fn, or fails the test.
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

func open(t *testing.T, l *lowering.Plan, o runtime.Options) *runtime.Session {
	t.Helper()
	s, err := toy.Open(l, o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// f64 returns an array of the elements, with one dimension.
func f64(x ...float64) array.Array {
	a, err := array.Of(x, len(x))
	if err != nil {
		panic(err)
	}
	return a
}

// ramp returns n different numbers whose sums are rounded.
func ramp(n int) array.Array {
	x := make([]float64, n)
	for i := range x {
		x[i] = 1/float64(i+3) - 0.1
	}
	return f64(x...)
}

// energy is Σ (x·w)², and x·w.
func energy(n int) func(*graph.Tracer) []*graph.Value {
	return func(tr *graph.Tracer) []*graph.Value {
		x, w := tr.Input("x", graph.F64, n), tr.Input("w", graph.F64, n)
		y := toy.Mul(x, w)
		return []*graph.Value{toy.Sum(toy.Square(y)), y}
	}
}

func TestBindErrors(t *testing.T) {
	p := trace(t, energy(4))
	s := open(t, plan(t, p, toy.Setup{Mesh: "a=2", Place: map[string]string{"x": "a"}}), runtime.Options{})
	q := trace(t, energy(4))
	q.Name = "q"
	other := open(t, plan(t, q, toy.Setup{Mesh: "b=2"}), runtime.Options{})
	put, err := runtime.Put(ramp(4), mesh(t, "a=3"), sharding.Spec{}, []int{0, 1, 2})
	require.NoError(t, err)
	x, err := s.Put("x", ramp(4))
	require.NoError(t, err)
	w, err := s.Put("w", ramp(4))
	require.NoError(t, err)
	elsewhere, err := other.Put("w", ramp(4))
	require.NoError(t, err)
	for _, c := range []struct {
		in   map[string]*runtime.Array
		want string
	}{
		{nil, "runtime: input x f64[4] of p is not given"},
		{map[string]*runtime.Array{"x": x}, "runtime: input w f64[4] of p is not given"},
		{map[string]*runtime.Array{"x": x, "w": nil}, "runtime: input w f64[4] of p is not given"},
		{map[string]*runtime.Array{"x": x, "w": w, "v": w}, `runtime: p has no input "v"; its inputs are x, w`},
		{map[string]*runtime.Array{"x": x, "w": x}, "runtime: input w of p is f64[4@a], want f64[4]; Session.Reshard moves it"},
		{map[string]*runtime.Array{"x": x, "w": elsewhere}, `runtime: input w of p: the array is of the job of q and lies on ranks [0 1] of the mesh "b=2", want ranks [0 1] of the mesh "a=2", on which p runs; Session.Reshard moves it`},
		{map[string]*runtime.Array{"x": x, "w": put}, `runtime: input w of p: the array is of runtime.Put and lies on ranks [0 1 2] of the mesh "a=3", want ranks [0 1] of the mesh "a=2", on which p runs; Session.Reshard moves it`},
	} {
		if _, err := s.Run(t.Context(), c.in); err == nil || err.Error() != c.want {
			t.Errorf("run: %v, want %s", err, c.want)
		}
	}
	for name, want := range map[string]string{
		"v": `runtime: p has no input "v"; its inputs are x, w`,
		"w": "runtime: input w of p is f64[3], want f64[4]",
	} {
		if _, err := s.Put(name, ramp(3)); err == nil || err.Error() != want {
			t.Errorf("put %s: %v, want %s", name, err, want)
		}
	}
	if _, err := s.Run(t.Context(), map[string]*runtime.Array{"x": x, "w": w}); err != nil {
		t.Errorf("after errors of the caller: %v", err)
	}
}

func TestOpenErrors(t *testing.T) {
	l := plan(t, trace(t, energy(4)), toy.Setup{Mesh: "a=2", Place: map[string]string{"x": "a"}})
	comms, err := engine.Local(3, jaccl.Options{})
	require.NoError(t, err)
	two, err := engine.Local(2, jaccl.Options{})
	require.NoError(t, err)
	for want, comms := range map[string][]jaccl.Communicator{
		"runtime: plan p: no communicators, want one per rank of this process":     nil,
		`runtime: plan p wants 2 ranks for the mesh "a=2", the communicator has 3`: comms,
		"runtime: plan p: two communicators for rank 1, want one":                  {two[1], two[1]},
	} {
		if _, err := runtime.Open(l, comms, runtime.Options{}); err == nil || err.Error() != want {
			t.Errorf("open: %v, want %s", err, want)
		}
	}
	require.NoError(t, two[0].Close())
	_, err = runtime.Open(l, two, runtime.Options{})
	require.ErrorIs(t, err, jaccl.ErrClosed)
	require.ErrorContains(t, err, "runtime: rank 0: group over [a]: ")
}

// One array may serve two inputs, as long as none of them is donated.
func TestOneArrayTwice(t *testing.T) {
	p := trace(t, energy(4))
	s := open(t, plan(t, p, toy.Setup{}), runtime.Options{})
	x, err := s.Put("x", f64(1, 2, 3, 4))
	require.NoError(t, err)
	out, err := s.Run(t.Context(), map[string]*runtime.Array{"x": x, "w": x})
	require.NoError(t, err)
	y, err := out[1].Get()
	require.NoError(t, err)
	require.Equal(t, []float64{1, 4, 9, 16}, y.Float64s())

	s = open(t, plan(t, p, toy.Setup{Donate: map[string]int{"w": 1}}), runtime.Options{})
	_, err = s.Run(t.Context(), map[string]*runtime.Array{"x": x, "w": x})
	require.EqualError(t, err, "runtime: inputs w and x of p are one array, which is donated; give each its own")
	if _, err := x.Get(); err != nil {
		t.Errorf("refused and yet spent: %v", err)
	}
}

// The same bits come out for any number of processors and threads.
func TestProcessors(t *testing.T) {
	defer gort.GOMAXPROCS(gort.GOMAXPROCS(0))
	const n = 96
	l := plan(t, trace(t, energy(n)), toy.Setup{Mesh: "a=2,b=2", Place: map[string]string{"x": "a.b", "w": "a"}})
	var want []array.Array
	for _, procs := range []int{1, 2, 8} {
		gort.GOMAXPROCS(procs)
		for threads := range 5 {
			out, err := toy.Eval(t.Context(), open(t, l, runtime.Options{Threads: threads}), map[string]array.Array{"x": ramp(n), "w": ramp(n)})
			require.NoError(t, err)
			if want == nil {
				want = out
			}
			for i := range want {
				if !array.Equal(out[i], want[i]) {
					t.Errorf("%d processors, %d threads: result %d is %v, want %v", procs, threads, i, out[i], want[i])
				}
			}
		}
	}
}

// Sessions of the same plan run at the same time, and so do different jobs. Each has its
// own memory.
func TestSessionsAtOnce(t *testing.T) {
	const n, steps = 32, 20
	sum := plan(t, trace(t, energy(n)), toy.Setup{Mesh: "a=2", Place: map[string]string{"x": "a", "w": "a"}})
	scale := plan(t, trace(t, func(tr *graph.Tracer) []*graph.Value {
		return []*graph.Value{toy.Scale(3, toy.Square(tr.Input("x", graph.F64, n)))}
	}), toy.Setup{Mesh: "a=4", Place: map[string]string{"x": "a"}})
	var wg sync.WaitGroup
	for job := range 6 {
		l, by := sum, float64(job+1)
		if job%3 == 2 {
			l = scale
		}
		s := open(t, l, runtime.Options{})
		x := make([]float64, n)
		for i := range x {
			x[i] = by
		}
		wg.Go(func() {
			for range steps {
				in, want := map[string]array.Array{"x": f64(x...)}, 3*by*by
				if l == sum {
					in["w"], want = f64(x...), n*by*by*by*by
				}
				out, err := toy.Eval(t.Context(), s, in)
				if err != nil {
					t.Errorf("job %d: %v", job, err)
					return
				}
				if got := out[0].Float64s()[0]; got != want {
					t.Errorf("job %d: %v, want %v", job, got, want)
				}
			}
		})
	}
	wg.Wait()
}

// Several goroutines may call a session. They take turns, and each gets the results
// of its own arrays.
func TestTurns(t *testing.T) {
	s := open(t, plan(t, trace(t, energy(8)), toy.Setup{Mesh: "a=2", Place: map[string]string{"x": "a"}}), runtime.Options{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			x := make([]float64, 8)
			for i := range x {
				x[i] = float64(g)
			}
			out, err := toy.Eval(t.Context(), s, map[string]array.Array{"x": f64(x...), "w": f64(x...)})
			if err != nil {
				t.Error(err)
			} else if got, want := out[0].Float64s()[0], float64(8*g*g*g*g); got != want {
				t.Errorf("caller %d got %v, want %v", g, got, want)
			}
		})
	}
	wg.Wait()
}

// Results belong to the caller: later steps do not change them, and they do not
// share memory with each other or with inputs.
func TestResultsAreOwn(t *testing.T) {
	s := open(t, plan(t, trace(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F64, 2, 2)
		y := toy.Square(x)
		return []*graph.Value{x, y, y, toy.Flatten(x), toy.Flatten(y), x}
	}), toy.Setup{}), runtime.Options{})
	m, err := array.Of([]float64{1, 2, 3, 4}, 2, 2)
	require.NoError(t, err)
	x, err := s.Put("x", m)
	require.NoError(t, err)
	out, err := s.Run(t.Context(), map[string]*runtime.Array{"x": x})
	require.NoError(t, err)
	again, err := s.Run(t.Context(), map[string]*runtime.Array{"x": x})
	require.NoError(t, err)
	all := append(append([]*runtime.Array{x}, out...), again...)
	for i, d := range all {
		for j := range toy.Part(t, d, 0).Float64s() {
			array.Data[float64](toy.Part(t, d, 0))[j] = float64(100 * i) // shared memory would show below
		}
	}
	for i, d := range all {
		if got := toy.Part(t, d, 0).Float64s(); got[0] != float64(100*i) || got[3] != float64(100*i) {
			t.Errorf("array %d of %d has memory of another: %v", i, len(all), got)
		}
	}
	var types []string
	for _, d := range out {
		types = append(types, d.Type.String())
	}
	require.Equal(t, "f64[2,2] f64[2,2] f64[2,2] f64[4] f64[4] f64[2,2]", strings.Join(types, " "))
}

// Ranks in different processes, here different sessions, find out before the
// first step that they run different plans.
func TestPlansCompared(t *testing.T) {
	p := trace(t, energy(4))
	a := plan(t, p, toy.Setup{Mesh: "a=2", Place: map[string]string{"x": "a"}})
	b := plan(t, p, toy.Setup{Mesh: "a=2", Place: map[string]string{"w": "a"}})
	step := func(plans [2]*lowering.Plan) (errs [2]error) {
		comms, err := engine.Local(2, jaccl.Options{})
		require.NoError(t, err)
		var wg sync.WaitGroup
		for i, c := range comms {
			s, err := runtime.Open(plans[i], comms[i:i+1], runtime.Options{})
			require.NoError(t, err)
			require.Equal(t, []int{c.Rank()}, s.Local())
			wg.Go(func() {
				in, err := toy.Put(s, map[string]array.Array{"x": ramp(4), "w": ramp(4)})
				if err == nil {
					_, err = s.Run(context.Background(), in)
				}
				if err == nil { // and once more, without comparing
					_, err = s.Run(context.Background(), in)
				}
				errs[i] = err
			})
		}
		wg.Wait()
		return errs
	}
	for i, err := range step([2]*lowering.Plan{a, b}) {
		want := fmt.Sprintf("runtime: rank 1 runs plan %s and rank 0 plan %s; start all ranks with the same program, mesh and options", b.Hash(), a.Hash())
		if err == nil || err.Error() != want {
			t.Errorf("rank %d: %v, want %s", i, err, want)
		}
	}
	for i, err := range step([2]*lowering.Plan{a, plan(t, p, toy.Setup{Mesh: "a=2", Place: map[string]string{"x": "a"}})}) {
		if err != nil {
			t.Errorf("rank %d with an equal plan: %v", i, err)
		}
	}
}

// A closed session takes no arrays, and gives lent memory back.
func TestPutAfterClose(t *testing.T) {
	s := squares(t)
	x := f64(1, 2, 3, 4)
	a, err := s.Put("x", x)
	require.NoError(t, err)
	s.Close()
	returned := 0
	fill := func(runtime.Part) error { return errors.New("filled") }
	for name, put := range map[string]func() (*runtime.Array, error){
		"put":     func() (*runtime.Array, error) { return s.Put("x", x) },
		"parts":   func() (*runtime.Array, error) { return s.PutParts("x", fill) },
		"reshard": func() (*runtime.Array, error) { return s.Reshard(t.Context(), "x", a) },
		"lend": func() (*runtime.Array, error) {
			return s.Lend("x", runtime.Loan{Mem: func(runtime.Part) []byte { return nil }, Fill: fill, Back: func() { returned++ }})
		},
	} {
		_, err := put()
		require.ErrorContains(t, err, "is closed; open another one", name)
	}
	require.Equal(t, 1, returned)
}
