package gomoe_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// First and second derivatives of loops agree with central differences: stacked arrays and
// tables, forwards and backwards, with everything kept and with the body computed again, a
// loop inside of Remat and Remat inside of a loop.
func TestScanDerivatives(t *testing.T) {
	const n = 3
	for name, params := range map[string]graph.ScanParams{"stacked": {}, "keep": {Keep: true}, "reverse": {Reverse: true}, "reverse keep": {Reverse: true, Keep: true}} {
		for _, how := range []string{"plain", "table", "inside remat", "with remat", "nested"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				p, err := graph.Trace("f", func(tr *graph.Tracer) []*graph.Value {
					x, c, w := tr.Input("x", graph.F64, 2, 3), tr.Input("c", graph.F64, 3), tr.Input("w", graph.F64, n, 3, 3)
					layer := func(_ *graph.Tracer, a []*graph.Value) []*graph.Value {
						x, w, c := a[0], a[1], a[2]
						return []*graph.Value{primitives.Tanh(primitives.Add(primitives.MatMul(x, w), primitives.Mul(x, primitives.BroadcastTo(c, x.Type.Shape...))))}
					}
					loop := func(_ *graph.Tracer, a []*graph.Value) []*graph.Value {
						x, w, c := a[0], a[1], a[2]
						p, xs := params, []*graph.Value{w}
						if how == "table" {
							var parts []*graph.Value
							for i := range n {
								parts = append(parts, primitives.Reshape(primitives.SliceInDim(w, 0, i, i+1), 3, 3))
							}
							p.Tables, xs = [][]*graph.Value{parts}, nil
						}
						carry, seen := graph.Scan(p, []*graph.Value{x}, xs, func(carry, w []*graph.Value) ([]*graph.Value, []*graph.Value) {
							args := []*graph.Value{carry[0], w[0], c}
							y := carry[0]
							switch how {
							case "with remat":
								y = vjp.Remat("layer", layer, args...)[0]
							case "nested":
								twice, _ := graph.Scan(graph.ScanParams{Length: 2, Keep: p.Keep}, []*graph.Value{y}, nil, func(carry, _ []*graph.Value) ([]*graph.Value, []*graph.Value) {
									return layer(nil, []*graph.Value{carry[0], w[0], c}), nil
								})
								y = twice[0]
							default:
								y = layer(nil, args)[0]
							}
							return []*graph.Value{y}, []*graph.Value{primitives.ReduceSum(primitives.Square(y), 0)}
						})
						return []*graph.Value{carry[0], seen[0]}
					}
					var out []*graph.Value
					if how == "inside remat" {
						out = vjp.Remat("loop", loop, x, w, c)
					} else {
						out = loop(tr, []*graph.Value{x, w, c})
					}
					return []*graph.Value{primitives.Add(primitives.ReduceSum(primitives.Square(out[0])), primitives.ReduceSum(primitives.Sin(out[1])))}
				})
				require.NoError(t, err)
				in := map[string]array.Array{}
				for _, v := range p.In {
					a := array.New(v.Type)
					for i := range array.Data[float64](a) {
						array.Data[float64](a)[i] = float64((i*7919)%101)/101 - 0.5
					}
					in[v.Name] = a
				}
				run := func(p *graph.Program) (vjp.Eval, error) {
					job, err := gomoe.Open(p, gomoe.Config{})
					if err != nil {
						return nil, err
					}
					t.Cleanup(func() { job.Close() })
					return func(ctx context.Context, in map[string]array.Array) ([]array.Array, error) { return job.Step(ctx, in) }, nil
				}
				grad, err := vjp.Grad(p, "x", "c", "w")
				require.NoError(t, err)
				for _, q := range []*graph.Program{p, grad} {
					r, err := vjp.Check(t.Context(), q, in, run, vjp.CheckOptions{})
					require.NoError(t, err)
					require.True(t, r.OK(), "%s", r)
				}
			})
		}
	}
}
