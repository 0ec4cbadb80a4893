package gomoe_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// depth is how many layers the tests' models have.
const depth = 5

// layered traces a model of layers x + gelu(x·w)·c, whose last layers carry on, with a
// loss that also reads what each layer returns. how says how the layers are written.
func layered(t *testing.T, how string) *graph.Program {
	t.Helper()
	layer := func(x, w, c *graph.Value) (*graph.Value, *graph.Value) {
		h := primitives.GELU(primitives.MatMul(x, w))
		return primitives.Add(x, primitives.Mul(h, primitives.BroadcastTo(c, h.Type.Shape...))), primitives.ReduceSum(h, 0)
	}
	p, err := graph.Trace("model", func(tr *graph.Tracer) []*graph.Value {
		x, c := tr.Input("x", graph.F32, 8, 4), tr.Input("c", graph.F32, 4)
		var weights []*graph.Value
		w := tr.Input("w", graph.F32, depth, 4, 4)
		for i := range depth {
			one := primitives.Slice(w, []int{i, 0, 0}, []int{i + 1, 4, 4})
			weights = append(weights, primitives.Reshape(one, 4, 4))
		}
		var seen *graph.Value
		switch how {
		case "written out":
			var parts []*graph.Value
			for _, w := range weights {
				var s *graph.Value
				x, s = layer(x, w, c)
				parts = append(parts, primitives.Reshape(s, 1, 4))
			}
			seen = primitives.Concatenate(0, parts...)
		default:
			params, xs := graph.ScanParams{Keep: how == "keep"}, []*graph.Value{w}
			if how == "table" {
				params.Tables, xs = [][]*graph.Value{weights}, nil
			}
			out, each := graph.Scan(params, []*graph.Value{x}, xs, func(carry, w []*graph.Value) ([]*graph.Value, []*graph.Value) {
				h, s := layer(carry[0], w[0], c)
				return []*graph.Value{h}, []*graph.Value{s}
			})
			x, seen = out[0], each[0]
		}
		loss := primitives.Add(primitives.ReduceSum(primitives.Square(x)), primitives.ReduceSum(primitives.Square(seen)))
		return []*graph.Value{loss, x, seen}
	})
	require.NoError(t, err)
	return p
}

func layeredInputs() map[string]array.Array {
	fill := func(shape ...int) array.Array {
		a := array.New(graph.T(graph.F32, shape...))
		for i := range array.Data[float32](a) {
			array.Data[float32](a)[i] = float32((i*7919)%101)/101 - 0.5
		}
		return a
	}
	return map[string]array.Array{"x": fill(8, 4), "c": fill(4), "w": fill(depth, 4, 4)}
}

// TestScanEqualsWrittenOut compares loops over layers with the same layers written out:
// the results have the same bits, on one rank and on several, with all ways to give the
// weights and both ways to differentiate; gradients are close.
func TestScanEqualsWrittenOut(t *testing.T) {
	ctx, in := context.Background(), layeredInputs()
	run := func(p *graph.Program, cfg gomoe.Config) []array.Array {
		cfg.Check = true
		out, err := gomoe.Run(ctx, p, cfg, in)
		require.NoError(t, err, "%s", p)
		return out
	}
	for _, mesh := range []string{"", "dp=2", "dp=2,tp=2"} {
		cfg := gomoe.Config{}
		if mesh != "" {
			m, err := sharding.ParseMesh(mesh)
			require.NoError(t, err)
			cfg.Mesh, cfg.Place = m, map[string]sharding.Spec{"x": sharding.Split("dp")}
		}
		for _, optimize := range []gomoe.Switch{gomoe.On, gomoe.Off} {
			cfg.Optimize = optimize
			plain := layered(t, "written out")
			grad, err := vjp.Grad(plain, "x", "c", "w")
			require.NoError(t, err)
			want, wantGrad := run(plain, cfg), run(grad, cfg)
			for _, how := range []string{"stacked", "table", "keep"} {
				t.Run(fmt.Sprintf("%s/%s/%v", how, mesh, optimize), func(t *testing.T) {
					p := layered(t, how)
					got := run(p, cfg)
					for i := range want {
						if !array.Equal(got[i], want[i]) {
							t.Errorf("result %d differs: %v, want %v", i, got[i], want[i])
						}
					}
					g, err := vjp.Grad(p, "x", "c", "w")
					require.NoError(t, err)
					require.NoError(t, graph.Check(g))
					again, err := gomoe.Parse("", g.String())
					require.NoError(t, err)
					require.Equal(t, g.String(), again.String())
					got = run(g, cfg)
					for i := range wantGrad {
						a, b := got[i].Float64s(), wantGrad[i].Float64s()
						for k := range a {
							require.InDelta(t, b[k], a[k], 1e-5*max(1, b[k]), "gradient result %d", i)
						}
					}
				})
			}
		}
	}
}
