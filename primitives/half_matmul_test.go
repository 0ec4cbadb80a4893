package primitives_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
)

// Products of 16-bit arguments have the bits of gemm.MultiplyHalf, whatever the
// result's type, the layout and the number of threads.
func TestHalfMatmulIsGemmHalf(t *testing.T) {
	t.Run("bf16", halfMatmulIsGemmHalf[array.Brain])
	t.Run("f16", halfMatmulIsGemmHalf[array.Half])
}

func halfMatmulIsGemmHalf[E gemm.Half](t *testing.T) {
	const m, n, k = 70, 130, 600
	r := rand.New(rand.NewPCG(1, 2))
	d := array.DTypeOf[E]()
	random := func(shape ...int) array.Array {
		a := array.New(graph.T(graph.F32, shape...))
		for i := range array.Data[float32](a) {
			array.Data[float32](a)[i] = float32(r.NormFloat64())
		}
		return a.As(d)
	}
	x, y, xt, yt := random(m, k), random(k, n), random(k, m), random(n, k)
	dot := func(x, y *graph.Value, l, r int, d graph.DType) *graph.Value {
		return graph.Apply1(primitives.DotGeneralOp{LHSContract: []int{l}, RHSContract: []int{r}, DType: d}, x, y)
	}
	p, err := graph.Trace("p", func(t *graph.Tracer) []*graph.Value {
		in := func(name string, a array.Array) *graph.Value { return t.Input(name, d, a.Type.Shape...) }
		vx, vy, vxt, vyt := in("x", x), in("y", y), in("xt", xt), in("yt", yt)
		return []*graph.Value{
			dot(vx, vy, 1, 0, 0), dot(vx, vyt, 1, 1, 0), dot(vxt, vy, 0, 0, 0),
			dot(vx, vy, 1, 0, graph.F32), dot(vx, vyt, 1, 1, graph.F32), dot(vxt, vy, 0, 0, graph.F32),
		}
	})
	require.NoError(t, err)
	data := func(a array.Array) []E { return array.Data[E](a) }
	var want []array.Array
	for _, c := range []struct {
		x, y               array.Array
		ars, acs, brs, bcs int
	}{{x, y, k, 1, n, 1}, {x, yt, k, 1, 1, k}, {xt, y, 1, m, n, 1}} {
		z := array.New(graph.T(d, m, n))
		gemm.MultiplyHalf(m, n, k, data(c.x), c.ars, c.acs, data(c.y), c.brs, c.bcs, data(z), n, false)
		w := array.New(graph.T(graph.F32, m, n))
		gemm.MultiplyHalf(m, n, k, data(c.x), c.ars, c.acs, data(c.y), c.brs, c.bcs, array.Data[float32](w), n, false)
		require.True(t, array.Equal(z, w.As(d)), "the result in f32 rounds to that in %s", d)
		want = append(want, z, w)
	}
	want = []array.Array{want[0], want[2], want[4], want[1], want[3], want[5]}
	for _, threads := range []int{1, 3} {
		got := runThreads(t, p, threads, map[string]array.Array{"x": x, "y": y, "xt": xt, "yt": yt})
		for i := range want {
			if !array.Equal(got[i], want[i]) {
				t.Errorf("%d threads, result %d differs from kernel.GemmHalf", threads, i)
			}
		}
	}
}

// runThreads returns the results of a program on one rank with that many threads.
func runThreads(t *testing.T, p *graph.Program, threads int, in map[string]array.Array) []array.Array {
	t.Helper()
	job, err := gomoe.Open(t.Context(), p, gomoe.Config{Options: runtime.Options{Threads: threads}})
	require.NoError(t, err)
	defer job.Close()
	placed := map[string]*runtime.Array{}
	for name, a := range in {
		placed[name], err = job.Put(name, a)
		require.NoError(t, err)
	}
	out, err := job.Run(context.Background(), placed)
	require.NoError(t, err)
	got := make([]array.Array, len(out))
	for i := range out {
		got[i], err = out[i].Get()
		require.NoError(t, err)
	}
	return got
}
