package gomoe_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// accumulate is a step that ends an accumulation: it returns a loss, the gradient of the
// weights, and zeros for the accumulator that it takes over.
func accumulate(t *testing.T) *graph.Program {
	t.Helper()
	p, err := graph.Trace("step", func(tr *graph.Tracer) []*graph.Value {
		w, acc := tr.Input("layers.0.w", graph.F32, 4), tr.Input("acc", graph.F32, 4)
		loss := primitives.ReduceSum(primitives.Mul(w, primitives.Mul(w, acc)), 0).Named("loss")
		return []*graph.Value{loss, vjp.Gradients(loss, w)[0], primitives.ZerosLike(acc).Named("new acc")}
	})
	require.NoError(t, err)
	return p
}

// Results can be had by name, of a program and of a session, and placements are given by
// pattern. Zeros take over the memory of an input that is split.
func TestNamedResults(t *testing.T) {
	p := accumulate(t)
	in := map[string]array.Array{"layers.0.w": mustOf(t, []float32{1, 2, 3, 4}), "acc": mustOf(t, []float32{1, 1, 1, 2})}
	mesh, err := sharding.ParseMesh("ep=2")
	require.NoError(t, err)
	cfg := gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"layers.*": sharding.Split("ep"), "acc": sharding.Split("ep.tp")}, Donate: map[string]int{"acc": 2}}
	got, err := gomoe.RunNamed(t.Context(), p, cfg, in)
	require.NoError(t, err)
	want := map[string][]float32{"loss": {46}, "grad(layers.0.w)": {2, 4, 6, 16}, "new acc": {0, 0, 0, 0}}
	require.Len(t, got, len(want))
	for name, x := range want {
		require.Equal(t, x, array.Data[float32](got[name]), name)
	}

	j, err := gomoe.Open(t.Context(), p, cfg)
	require.NoError(t, err)
	defer j.Close()
	placed := map[string]*runtime.Array{}
	for name, a := range in {
		placed[name], err = j.Put(name, a)
		require.NoError(t, err)
	}
	out, err := j.RunNamed(t.Context(), placed)
	require.NoError(t, err)
	require.Len(t, out, len(want))
	require.Equal(t, "ep", out["new acc"].Spec.String())
	for name, x := range want {
		a, err := out[name].Get()
		require.NoError(t, err)
		require.Equal(t, x, array.Data[float32](a), name)
	}
}

func mustOf(t *testing.T, x []float32) array.Array {
	a, err := array.Of(x, len(x))
	require.NoError(t, err)
	return a
}

// Results without a name of their own have the name that the program's text gives them, also after functions that are expanded.
func TestResultsHaveTheirTextsNames(t *testing.T) {
	p, err := gomoe.Parse("names.graph", `program f(a f64[2]) {
	v1 f64[2] = exp(a)
	v2 f64[2] = add(v1, a)
	return v2
}

program p(x f64[2]) {
	v1 f64[2] = remat(x) fn=f
	v2 f64[2] = sin(v1)
	v3 f64[2] = neg(x)
	return v1, v2, v3
}
`)
	require.NoError(t, err)
	x, err := array.Of([]float64{0, 1}, 2)
	require.NoError(t, err)
	in := map[string]array.Array{"x": x}
	for _, optimize := range []gomoe.Switch{gomoe.On, gomoe.Off} {
		got, err := gomoe.RunNamed(t.Context(), p, gomoe.Config{Optimize: optimize}, in)
		require.NoError(t, err)
		require.Len(t, got, 3)
		require.InDeltaSlice(t, []float64{1, math.E + 1}, array.Data[float64](got["v1"]), 1e-12)
		require.InDeltaSlice(t, []float64{math.Sin(1), math.Sin(math.E + 1)}, array.Data[float64](got["v2"]), 1e-12)
		require.Equal(t, []float64{0, -1}, array.Data[float64](got["v3"]))
	}
}
