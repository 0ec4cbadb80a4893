package gomoe_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// Where ranks take their parts of a whole value, and where the tokens of a layer are split unevenly, the derivative
// gathers the cotangents: a program that runs on a mesh has a gradient there, the one of one rank.
//
// Most rows end with the same step: the product with a w that is split, so that the cotangent of the whole value is split
// where its derivative needs it whole.
func TestGradientsOfParts(t *testing.T) {
	type values = []*graph.Value
	moe := func(tr *graph.Tracer, x *graph.Value, pool func(*graph.Value) *graph.Value) values {
		s := nn.New(tr, nn.Options{})
		h, _ := nn.MoE{Experts: 4, Width: 6, Route: primitives.RouteOp{TopK: 2, Renormalize: true}}.Apply(s.In("mlp", ""), x)
		loss := primitives.ReduceSum(primitives.Square(pool(h)))
		return append(values{loss}, vjp.Gradients(loss, append(s.Values(), x)...)...)
	}
	parts := func(shape []int, of func(x *graph.Value) *graph.Value) func(tr *graph.Tracer) values {
		return func(tr *graph.Tracer) values {
			x := tr.Input("x", graph.F32, shape...)
			y := of(primitives.Sin(x))
			loss := primitives.ReduceSum(primitives.Square(primitives.Tanh(primitives.Mul(y, tr.Input("w", graph.F32, y.Type.Shape...)))))
			return append(values{loss}, vjp.Gradients(loss, x)...)
		}
	}
	first, second, meshes := map[string]sharding.Spec{"w": sharding.Split("ep")}, map[string]sharding.Spec{"w": sharding.Split("", "ep")}, []string{"ep=2", "ep=3", "ep=5"}
	x43 := []int{4, 3}
	ones := func(x *graph.Value) *graph.Value { return primitives.Full(x.Tracer(), 1, x.Type.DType, x.Dim(-1)) }
	for name, c := range map[string]struct {
		trace  func(tr *graph.Tracer) values
		place  map[string]sharding.Spec
		meshes []string
	}{
		"a sum over columns": {func(tr *graph.Tracer) values {
			x, w := tr.Input("x", graph.F32, 3, 4), tr.Input("w", graph.F32, 3)
			loss := primitives.ReduceSum(primitives.Mul(primitives.ReduceSum(x, 1), w))
			return append(values{loss}, vjp.Gradients(loss, x, w)...)
		}, map[string]sharding.Spec{"w": sharding.Split("ep")}, []string{"ep=2", "ep=3"}},
		"cumsum":            {parts(x43, func(x *graph.Value) *graph.Value { return primitives.CumSum(x, 1) }), second, meshes},
		"sort":              {parts(x43, func(x *graph.Value) *graph.Value { y, _ := primitives.Sort(x, 1); return y }), second, meshes},
		"top_k":             {parts(x43, func(x *graph.Value) *graph.Value { y, _ := primitives.TopK(x, 2); return y }), second, meshes},
		"reverse":           {parts(x43, func(x *graph.Value) *graph.Value { return primitives.Reverse(x, 1) }), second, meshes},
		"softmax":           {parts(x43, func(x *graph.Value) *graph.Value { return primitives.Softmax(x, 1) }), second, meshes},
		"rms_norm":          {parts(x43, func(x *graph.Value) *graph.Value { return primitives.RMSNorm(x, ones(x), 1e-6) }), second, meshes},
		"layer_norm":        {parts(x43, func(x *graph.Value) *graph.Value { return primitives.LayerNorm(x, ones(x), ones(x), 1e-6) }), second, meshes},
		"slice":             {parts(x43, func(x *graph.Value) *graph.Value { return primitives.SliceInDim(x, 1, 1, 3) }), second, meshes},
		"concatenate":       {parts(x43, func(x *graph.Value) *graph.Value { return primitives.Concatenate(0, x, primitives.Square(x)) }), first, meshes},
		"reshape of parts":  {parts(x43, func(x *graph.Value) *graph.Value { return primitives.Reshape(x, 12) }), first, meshes},
		"reshape of rows":   {parts(x43, func(x *graph.Value) *graph.Value { return primitives.Reshape(x, 2, 6) }), second, meshes},
		"reshape from row":  {parts([]int{2}, func(x *graph.Value) *graph.Value { return primitives.Reshape(x, 1, 2) }), first, meshes},
		"transpose of rows": {parts([]int{4, 3, 2}, func(x *graph.Value) *graph.Value { return primitives.Reshape(primitives.Transpose(x, 1, 0, 2), 12, 2) }), first, meshes},
		"take_along_axis": {parts(x43, func(x *graph.Value) *graph.Value {
			return primitives.TakeAlongAxis(x, primitives.Full(x.Tracer(), 1, graph.I32, 4, 2), 1)
		}), second, meshes},
		"two axes": {func(tr *graph.Tracer) values {
			x, w := tr.Input("x", graph.F32, 6, 6), tr.Input("w", graph.F32, 6, 6)
			y := primitives.Sin(x)
			loss := primitives.ReduceSum(primitives.Mul(primitives.Mul(primitives.CumSum(y, 0), w), primitives.Transpose(primitives.Mul(y, tr.Input("v", graph.F32, 6, 6)), 1, 0)))
			return append(values{loss}, vjp.Gradients(loss, x, w)...)
		}, map[string]sharding.Spec{"w": sharding.Split("", "dp"), "v": sharding.Split("", "ep")}, []string{"dp=2,ep=2", "dp=3,ep=4"}},
		"a split sum of products": {func(tr *graph.Tracer) values {
			x, w, u := tr.Input("x", graph.F32, 5, 4), tr.Input("w", graph.F32, 4, 6), tr.Input("u", graph.F32, 6, 3)
			loss := primitives.ReduceSum(primitives.Square(primitives.MatMul(primitives.MatMul(x, w), u)))
			return append(values{loss}, vjp.Gradients(loss, x, w, u)...)
		}, map[string]sharding.Spec{"w": sharding.Split("ep"), "u": sharding.Split("ep")}, []string{"ep=2", "ep=3"}},
		"second derivative": {func(tr *graph.Tracer) values {
			x, w := tr.Input("x", graph.F32, 4, 3), tr.Input("w", graph.F32, 4, 3)
			loss := primitives.ReduceSum(primitives.Tanh(primitives.Mul(primitives.CumSum(primitives.Sin(x), 1), w)))
			g := vjp.Gradients(loss, x)[0]
			more := primitives.ReduceSum(primitives.Square(g))
			return append(values{loss, g}, vjp.Gradients(more, x, w)...)
		}, second, meshes},
		"a loop over slices": {func(tr *graph.Tracer) values {
			x, w := tr.Input("x", graph.F32, 3, 4), tr.Input("w", graph.F32, 5, 3)
			c, ys := graph.Scan(graph.ScanParams{}, values{primitives.ReduceSum(x, 1)}, values{primitives.Full(tr, 0.5, graph.F32, 5, 3)}, func(c, s values) (values, values) {
				y := primitives.Tanh(primitives.Add(primitives.CumSum(c[0], 0), s[0]))
				return values{y}, values{y}
			})
			loss := primitives.Add(primitives.ReduceSum(primitives.Square(c[0])), primitives.ReduceSum(primitives.Mul(ys[0], w)))
			return append(values{loss}, vjp.Gradients(loss, x, w)...)
		}, first, meshes},
		"a maximum": {func(tr *graph.Tracer) values {
			x, w := tr.Input("x", graph.F32, 3, 4), tr.Input("w", graph.F32, 3)
			loss := primitives.ReduceSum(primitives.Mul(primitives.Tanh(primitives.ReduceMax(primitives.Sin(x), 1)), w))
			return append(values{loss}, vjp.Gradients(loss, x, w)...)
		}, map[string]sharding.Spec{"w": sharding.Split("ep")}, []string{"ep=2", "ep=3"}},
		"a loop": {func(tr *graph.Tracer) values {
			x, w := tr.Input("x", graph.F32, 3, 4), tr.Input("w", graph.F32, 5, 3)
			c, _ := graph.Scan(graph.ScanParams{}, values{x}, values{w}, func(c, w values) (values, values) {
				return values{primitives.Tanh(primitives.Add(c[0], primitives.BroadcastInDim(primitives.Mul(primitives.ReduceSum(c[0], 1), w[0]), []int{3, 4}, 0)))}, nil
			})
			loss := primitives.ReduceSum(primitives.Square(c[0]))
			return append(values{loss}, vjp.Gradients(loss, x, w)...)
		}, map[string]sharding.Spec{"w": sharding.Split("", "ep")}, []string{"ep=2", "ep=3"}},
		"pooled over the sequence": {func(tr *graph.Tracer) values {
			return moe(tr, tr.Input("x", graph.F32, 8, 5, 4), func(h *graph.Value) *graph.Value { return primitives.ReduceSum(h, 1) })
		}, map[string]sharding.Spec{"x": sharding.Split("dp.ep")}, []string{"dp=2", "dp=3", "ep=3", "dp=3,ep=2"}},
		"the first token alone": {func(tr *graph.Tracer) values {
			return moe(tr, tr.Input("x", graph.F32, 8, 5, 4), func(h *graph.Value) *graph.Value { return primitives.SliceInDim(h, 1, 0, 1) })
		}, map[string]sharding.Spec{"x": sharding.Split("dp.ep")}, []string{"dp=2", "dp=3", "ep=5"}},
		"pooled by a maximum": {func(tr *graph.Tracer) values {
			return moe(tr, tr.Input("x", graph.F32, 8, 5, 4), func(h *graph.Value) *graph.Value { return primitives.ReduceMax(h, 1) })
		}, map[string]sharding.Spec{"x": sharding.Split("dp.ep")}, []string{"dp=3", "ep=3"}},
		"pooled over the batch": {func(tr *graph.Tracer) values {
			return moe(tr, tr.Input("x", graph.F32, 8, 5, 4), func(h *graph.Value) *graph.Value { return primitives.ReduceSum(h, 0, 1) })
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

// What cannot be placed says where the split comes from, by the user's name.
func TestSplitComesFrom(t *testing.T) {
	p, err := graph.Trace("f", func(tr *graph.Tracer) []*graph.Value {
		x, w := tr.Input("x", graph.F32, 4, 3), tr.Input("w", graph.F32, 4, 3)
		return []*graph.Value{primitives.CumSum(primitives.Tanh(primitives.Mul(primitives.Sin(x), w)), 1)}
	})
	require.NoError(t, err)
	m, err := sharding.ParseMesh("ep=3")
	require.NoError(t, err)
	_, err = gomoe.Compile(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"w": sharding.Split("", "ep")}})
	require.ErrorContains(t, err, "grad_place_test.go:")
	require.ErrorContains(t, err, "cumsum(f32[4,3@ep]): dimension 1 of argument 0 is split over ep and must be whole here; gather it with sharding_constraint; the split over ep comes from w f32[4,3@ep], at")
}

// Loops within loops, all of which their bodies move to a placement that the loop outside does not have, are placed once for
// each placement of their arguments, not once for each time that the body around them is placed.
func TestLoopsInLoops(t *testing.T) {
	type values = []*graph.Value
	for _, keep := range []bool{false, true} {
		p, err := graph.Trace("f", func(tr *graph.Tracer) values {
			x, w := tr.Input("x", graph.F32, 4, 4), tr.Input("w", graph.F32, 4)
			var nest func(depth int, x *graph.Value) *graph.Value
			nest = func(depth int, x *graph.Value) *graph.Value {
				c, _ := graph.Scan(graph.ScanParams{Length: 1, Keep: keep}, values{x}, nil, func(c, _ values) (values, values) {
					if depth > 0 {
						return values{nest(depth-1, c[0])}, nil
					}
					return values{primitives.Tanh(primitives.Add(primitives.CumSum(c[0], 0), primitives.BroadcastInDim(primitives.Mul(primitives.ReduceSum(c[0], 1), w), []int{4, 4}, 0)))}, nil
				})
				return c[0]
			}
			loss := primitives.ReduceSum(primitives.Square(nest(25, x)))
			return append(values{loss}, vjp.Gradients(loss, x, w)...)
		})
		require.NoError(t, err)
		m, err := sharding.ParseMesh("ep=2")
		require.NoError(t, err)
		_, err = gomoe.Compile(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"w": sharding.Split("ep")}})
		require.NoError(t, err)
	}
}

// A program is placed once, however many gradients are gathered.
func TestManyGathers(t *testing.T) {
	p, err := graph.Trace("f", func(tr *graph.Tracer) []*graph.Value {
		w, loss := tr.Input("w", graph.F32, 4), primitives.Full(tr, 0, graph.F32)
		var wrt []*graph.Value
		for i := range 3000 {
			x := tr.Input(fmt.Sprintf("x%d", i), graph.F32, 4, 3)
			wrt, loss = append(wrt, x), primitives.Add(loss, primitives.ReduceSum(primitives.Square(primitives.Mul(primitives.ReduceSum(x, 1), w))))
		}
		return append([]*graph.Value{loss}, vjp.Gradients(loss, wrt...)...)
	})
	require.NoError(t, err)
	m, err := sharding.ParseMesh("ep=2")
	require.NoError(t, err)
	_, err = gomoe.Place(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"w": sharding.Split("ep")}})
	require.NoError(t, err)
}
