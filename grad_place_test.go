package gomoe_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	. "github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// Where ranks take their parts of a whole value, and where the tokens of a layer are split unevenly, the derivative
// gathers the cotangents: a program that runs on a mesh has a gradient there, the one of one rank.
func TestGradientsOfParts(t *testing.T) {
	type values = []*graph.Value
	moe := func(tr *graph.Tracer, x *graph.Value, pool func(*graph.Value) *graph.Value) values {
		s := nn.New(tr, nn.Options{})
		h, _ := nn.MoE{Experts: 4, Width: 6, Route: RouteOp{TopK: 2, Renormalize: true}}.Apply(s.In("mlp", ""), x)
		loss := ReduceSum(Square(pool(h)))
		return append(values{loss}, vjp.Gradients(loss, append(s.Values(), x)...)...)
	}
	for name, c := range map[string]struct {
		trace  func(tr *graph.Tracer) values
		place  map[string]sharding.Spec
		meshes []string
	}{
		"a sum over columns": {func(tr *graph.Tracer) values {
			x, w := tr.Input("x", graph.F32, 3, 4), tr.Input("w", graph.F32, 3)
			loss := ReduceSum(Mul(ReduceSum(x, 1), w))
			return append(values{loss}, vjp.Gradients(loss, x, w)...)
		}, map[string]sharding.Spec{"w": sharding.Split("ep")}, []string{"ep=2", "ep=3"}},
		"a maximum": {func(tr *graph.Tracer) values {
			x, w := tr.Input("x", graph.F32, 3, 4), tr.Input("w", graph.F32, 3)
			loss := ReduceSum(Mul(Tanh(ReduceMax(Sin(x), 1)), w))
			return append(values{loss}, vjp.Gradients(loss, x, w)...)
		}, map[string]sharding.Spec{"w": sharding.Split("ep")}, []string{"ep=2", "ep=3"}},
		"a loop": {func(tr *graph.Tracer) values {
			x, w := tr.Input("x", graph.F32, 3, 4), tr.Input("w", graph.F32, 5, 3)
			c, _ := graph.Scan(graph.ScanParams{}, values{x}, values{w}, func(c, w values) (values, values) {
				return values{Tanh(Add(c[0], BroadcastInDim(Mul(ReduceSum(c[0], 1), w[0]), []int{3, 4}, 0)))}, nil
			})
			loss := ReduceSum(Square(c[0]))
			return append(values{loss}, vjp.Gradients(loss, x, w)...)
		}, map[string]sharding.Spec{"w": sharding.Split("", "ep")}, []string{"ep=2", "ep=3"}},
		"pooled over the sequence": {func(tr *graph.Tracer) values {
			return moe(tr, tr.Input("x", graph.F32, 8, 5, 4), func(h *graph.Value) *graph.Value { return ReduceSum(h, 1) })
		}, map[string]sharding.Spec{"x": sharding.Split("dp.ep")}, []string{"dp=2", "dp=3", "ep=3", "dp=3,ep=2"}},
		"the first token alone": {func(tr *graph.Tracer) values {
			return moe(tr, tr.Input("x", graph.F32, 8, 5, 4), func(h *graph.Value) *graph.Value { return SliceInDim(h, 1, 0, 1) })
		}, map[string]sharding.Spec{"x": sharding.Split("dp.ep")}, []string{"dp=2", "dp=3", "ep=5"}},
		"pooled by a maximum": {func(tr *graph.Tracer) values {
			return moe(tr, tr.Input("x", graph.F32, 8, 5, 4), func(h *graph.Value) *graph.Value { return ReduceMax(h, 1) })
		}, map[string]sharding.Spec{"x": sharding.Split("dp.ep")}, []string{"dp=3", "ep=3"}},
		"pooled over the batch": {func(tr *graph.Tracer) values {
			return moe(tr, tr.Input("x", graph.F32, 8, 5, 4), func(h *graph.Value) *graph.Value { return ReduceSum(h, 0, 1) })
		}, map[string]sharding.Spec{"x": sharding.Split("dp.ep")}, []string{"dp=3", "ep=3"}},
	} {
		p, err := graph.Trace("f", c.trace)
		require.NoError(t, err, name)
		r := rand.New(rand.NewPCG(1, 2))
		in := map[string]array.Array{}
		for _, v := range p.In {
			a := array.New(v.Type)
			for i := range array.Data[float32](a) {
				array.Data[float32](a)[i] = float32(r.NormFloat64())
			}
			in[v.Name] = a
		}
		want, err := gomoe.Run(t.Context(), p, gomoe.Config{}, in)
		require.NoError(t, err, name)
		for _, mesh := range c.meshes {
			for _, optimize := range []gomoe.Switch{gomoe.On, gomoe.Off} {
				m, err := sharding.ParseMesh(mesh)
				require.NoError(t, err)
				cfg := gomoe.Config{Mesh: m, Place: c.place, Optimize: optimize, Check: true}
				cfg.Poison = true
				got, err := gomoe.Run(t.Context(), p, cfg, in)
				require.NoError(t, err, "%s on %s", name, mesh)
				for i := range want {
					largest := 1.0
					for _, x := range want[i].Float64s() {
						largest = max(largest, x, -x)
					}
					if d, at := array.MaxDiff(got[i], want[i]); !(d <= 2e-6*largest) {
						t.Errorf("%s on %s: result %d differs by %g at %d from one rank's", name, mesh, i, d, at)
					}
				}
			}
		}
	}
}

// What still cannot be placed says where the split comes from, by the user's name.
func TestSplitComesFrom(t *testing.T) {
	p, err := graph.Trace("f", func(tr *graph.Tracer) []*graph.Value {
		x, w := tr.Input("x", graph.F32, 4, 3), tr.Input("w", graph.F32, 4, 3)
		loss := ReduceSum(Square(Mul(CumSum(Sin(x), 1), w)))
		return vjp.Gradients(loss, x)
	})
	require.NoError(t, err)
	m, err := sharding.ParseMesh("ep=3")
	require.NoError(t, err)
	_, err = gomoe.Compile(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"w": sharding.Split("", "ep")}})
	require.ErrorContains(t, err, "cumsum(f32[4,3@ep]): dimension 1 of argument 0 is split over ep and must be whole here; gather it with sharding_constraint; the split over ep comes from w f32[4,3@ep]")
}
