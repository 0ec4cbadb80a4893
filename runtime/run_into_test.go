package runtime_test

import (
	gort "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/runtime"
)

// squares has the results x·x and x·x·y, on two ranks.
func squares(t *testing.T) *runtime.Session {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x, y := tr.Input("x", graph.F64, 4), tr.Input("y", graph.F64, 4)
		return []*graph.Value{toy.Square(x), toy.Mul(toy.Square(x), y)}
	})
	return open(t, plan(t, p, toy.Setup{Mesh: "a=2", Place: map[string]string{"x": "a", "y": "a"}}), runtime.Options{})
}

func values(t *testing.T, a *runtime.Array) []float64 {
	got, err := a.Get()
	require.NoError(t, err)
	return array.Data[float64](got)
}

// RunInto uses Arrays again, also those that the step reads, and gives Run's numbers.
func TestRunInto(t *testing.T) {
	s := squares(t)
	in, err := toy.Put(s, map[string]array.Array{"x": f64(1, 2, 3, 4), "y": f64(1, 1, 2, 2)})
	require.NoError(t, err)
	out := make([]*runtime.Array, 2)
	require.NoError(t, s.RunInto(t.Context(), in, out))
	require.Equal(t, []float64{1, 4, 9, 16}, values(t, out[0]))
	require.Equal(t, []float64{1, 4, 18, 32}, values(t, out[1]))

	first, second := out[0], out[1]
	require.NoError(t, s.RunInto(t.Context(), in, out))
	if out[0] != first || out[1] != second {
		t.Error("RunInto makes Arrays where there are some")
	}
	require.Equal(t, []float64{1, 4, 18, 32}, values(t, out[1]))

	in["x"] = out[0] // x² is read while x⁴ is computed, which then takes its place
	require.NoError(t, s.RunInto(t.Context(), in, out))
	require.Equal(t, []float64{1, 16, 81, 256}, values(t, in["x"]))
	require.Equal(t, []float64{1, 16, 162, 512}, values(t, out[1]))
	want, err := s.Run(t.Context(), in)
	require.NoError(t, err)
	require.NoError(t, s.RunInto(t.Context(), in, out))
	require.Equal(t, values(t, want[0]), values(t, out[0]))

	s.Recycle(out[1], nil)
	_, err = out[1].Get()
	require.ErrorContains(t, err, "recycled")
	require.NoError(t, s.RunInto(t.Context(), map[string]*runtime.Array{"x": want[0], "y": in["y"]}, out))
	require.Len(t, values(t, out[1]), 4)
}

// Memory that RunInto gives back serves the same step, unless the step reads it.
func TestRunIntoMemory(t *testing.T) {
	s := squares(t)
	in, err := toy.Put(s, map[string]array.Array{"x": f64(1, 2, 3, 4), "y": f64(1, 1, 2, 2)})
	require.NoError(t, err)
	out := make([]*runtime.Array, 2)
	at := func() map[*byte]bool {
		require.NoError(t, s.RunInto(t.Context(), in, out))
		m := map[*byte]bool{}
		for _, a := range out {
			m[&toy.Part(t, a, 0).Bytes()[0]] = true
		}
		require.Len(t, m, 2)
		return m
	}
	require.Equal(t, at(), at())
	in["x"] = out[0]
	read := &toy.Part(t, out[0], 0).Bytes()[0]
	if at()[read] {
		t.Error("a result is written over an input of the step")
	}
}

func TestRunIntoRefuses(t *testing.T) {
	s := squares(t)
	in, err := toy.Put(s, map[string]array.Array{"x": f64(1, 2, 3, 4), "y": f64(1, 1, 2, 2)})
	require.NoError(t, err)
	out := make([]*runtime.Array, 2)
	require.NoError(t, s.RunInto(t.Context(), in, out))
	require.ErrorContains(t, s.RunInto(t.Context(), in, out[:1]), "room for 1 results of p, want 2")
	require.ErrorContains(t, s.RunInto(t.Context(), in, []*runtime.Array{out[0], out[0]}), "results 0 and 1 of p have one array to use again; give each its own, or nil")
	require.Equal(t, []float64{1, 4, 9, 16}, values(t, out[0]), "spent by a step that did not run")
	require.Error(t, s.RunInto(t.Context(), nil, out))
	require.Equal(t, []float64{1, 4, 9, 16}, values(t, out[0]), "spent by a step that did not run")
	one, err := runtime.Put(f64(1, 2), s.Plan().Mesh, s.Plan().In[0].Spec, []int{1})
	require.NoError(t, err)
	require.ErrorContains(t, s.RunInto(t.Context(), in, []*runtime.Array{one, nil}), "lies on ranks [1], want [0 1]")
}

// The goroutines of ranks outlive a step, end with Close, and a second after the last
// step of a session that nobody closes; then another step starts them again.
func TestWorkersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := squares(t)
		in, err := toy.Put(s, map[string]array.Array{"x": f64(1, 2, 3, 4), "y": f64(1, 1, 2, 2)})
		require.NoError(t, err)
		workers := func() int {
			buf := make([]byte, 1<<20)
			return strings.Count(string(buf[:gort.Stack(buf, true)]), ".(*worker[...]).run")
		}
		step := func() {
			_, err := s.Run(t.Context(), in)
			require.NoError(t, err)
		}
		before := workers()
		step()
		step()
		require.Greater(t, workers(), before, "a step leaves no worker")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Equal(t, before, workers(), "workers after 3 s")
		step()
		require.Greater(t, workers(), before)
		s.Close()
		s.Close()
		require.Equal(t, before, workers(), "workers after Close")
		_, err = s.Run(t.Context(), in)
		require.ErrorContains(t, err, "is closed", "a step of a closed session")
		require.Equal(t, before, workers(), "workers after a step that did not run")
	})
}
