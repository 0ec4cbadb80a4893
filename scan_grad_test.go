package gomoe_test

import (
	"context"
	"math"
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
					job, err := gomoe.Open(t.Context(), p, gomoe.Config{})
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

// A value that a loop carries and no result with a cotangent depends on has no cotangent, so its infinite derivative
// is not multiplied by zero: neither are those of the arguments that only such a value is made of.
func TestScanWithoutCotangent(t *testing.T) {
	const n, at = 8, 3.0
	// Each loop carries a' = sin(a), which the loss reads, and values that overflow. big is infinite.
	type values = []*graph.Value
	loops := map[string]func(p graph.ScanParams, x, big, each *graph.Value) *graph.Value{
		"a square": func(p graph.ScanParams, x, big, each *graph.Value) *graph.Value {
			out, _ := graph.Scan(p, values{x, primitives.MulScalar(x, 1e9)}, nil, func(c, _ values) (values, values) {
				return values{primitives.Sin(c[0]), primitives.Square(primitives.Square(primitives.Square(c[1])))}, nil
			})
			return out[0]
		},
		"a chain": func(p graph.ScanParams, x, big, each *graph.Value) *graph.Value {
			out, _ := graph.Scan(p, values{x, x, x}, nil, func(c, _ values) (values, values) {
				return values{primitives.Mul(c[1], c[2]), primitives.Sin(c[1]), primitives.Exp(primitives.Exp(c[2]))}, nil
			})
			return out[1]
		},
		"a constant": func(p graph.ScanParams, x, big, each *graph.Value) *graph.Value {
			out, _ := graph.Scan(p, values{x, x}, nil, func(c, _ values) (values, values) {
				return values{primitives.Sin(c[0]), primitives.Mul(c[1], big)}, nil
			})
			return out[0]
		},
		"a slice": func(p graph.ScanParams, x, big, each *graph.Value) *graph.Value {
			out, _ := graph.Scan(p, values{x, x}, values{each}, func(c, w values) (values, values) {
				return values{primitives.Sin(c[0]), primitives.Mul(c[1], w[0])}, nil
			})
			return out[0]
		},
		"a first value that is not read": func(p graph.ScanParams, x, big, each *graph.Value) *graph.Value {
			out, _ := graph.Scan(p, values{x, big}, nil, func(c, _ values) (values, values) {
				return values{primitives.Sin(c[0]), primitives.Sin(c[0])}, nil
			})
			return out[1]
		},
		"a result of an iteration": func(p graph.ScanParams, x, big, each *graph.Value) *graph.Value {
			_, seen := graph.Scan(p, values{x, x}, nil, func(c, _ values) (values, values) {
				a, b := primitives.Sin(c[0]), primitives.Exp(primitives.Exp(c[1]))
				return values{a, b}, values{a, b}
			})
			last := n - 1
			if p.Reverse {
				last = 0
			}
			return primitives.Reshape(primitives.SliceInDim(seen[0], 0, last, last+1))
		},
	}
	want := 1.0
	for a, i := at, 0; i < n; i++ {
		want *= math.Cos(a)
		a = math.Sin(a)
	}
	for name, loop := range loops {
		for _, how := range []string{"plain", "inside remat", "inside a loop"} {
			for _, p := range []graph.ScanParams{{Length: n}, {Length: n, Keep: true}, {Length: n, Reverse: true}, {Length: n, Reverse: true, Keep: true}} {
				q, err := graph.Trace("f", func(tr *graph.Tracer) []*graph.Value {
					x, v := tr.Input("x", graph.F64), tr.Input("v", graph.F64)
					big := primitives.Exp(primitives.MulScalar(v, 1000))
					each := primitives.BroadcastInDim(big, []int{n})
					var loss *graph.Value
					switch how {
					case "plain":
						loss = loop(p, x, big, each)
					case "inside remat":
						loss = vjp.Remat("again", func(_ *graph.Tracer, a []*graph.Value) []*graph.Value {
							return []*graph.Value{loop(p, a[0], a[1], a[2])}
						}, x, big, each)[0]
					case "inside a loop":
						out, _ := graph.Scan(graph.ScanParams{Length: 1, Keep: p.Keep}, values{x, big}, nil, func(c, _ values) (values, values) {
							return values{loop(p, c[0], big, each), primitives.Mul(c[1], c[1])}, nil
						})
						loss = out[0]
					}
					return append([]*graph.Value{loss}, vjp.Gradients(loss, x, v)...)
				})
				require.NoError(t, err, name)
				got, err := gomoe.Run(t.Context(), q, gomoe.Config{Optimize: gomoe.Off}, map[string]array.Array{
					"x": array.Scalar(at), "v": array.Scalar(1.0),
				})
				require.NoError(t, err, name)
				if dx, dv := got[1].Float64s()[0], got[2].Float64s()[0]; math.Abs(dx-want) > 1e-12 || dv != 0 {
					t.Errorf("%s, %s, %+v: gradients are %v and %v, want %v and 0\n%s", name, how, p, dx, dv, want, q)
				}
			}
		}
	}
}
