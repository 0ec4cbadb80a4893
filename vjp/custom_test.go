package vjp_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

type values = []*graph.Value

// straightThrough rounds, with the derivative of the identity.
func straightThrough(x *graph.Value) *graph.Value {
	return vjp.Custom("ste",
		func(_ *graph.Tracer, x values) values { return values{primitives.Round(x[0])} },
		func(_ *graph.Tracer, _, _, ct values) values { return ct },
		x)[0]
}

// clipGradient is the identity, with the cotangent clamped to -c and c.
func clipGradient(x *graph.Value, c float64) *graph.Value {
	return vjp.Custom("clip_gradient",
		func(_ *graph.Tracer, x values) values { return x },
		func(t *graph.Tracer, _, _, ct values) values {
			d := ct[0].Type.DType
			return values{primitives.Clamp(primitives.Full(t, -c, d), ct[0], primitives.Full(t, c, d))}
		}, x)[0]
}

// cube is x³ with its own derivative, which is the true one.
func cube(x *graph.Value) *graph.Value {
	return vjp.Custom("cube",
		func(_ *graph.Tracer, x values) values { return values{primitives.Mul(x[0], primitives.Square(x[0]))} },
		func(_ *graph.Tracer, x, _, ct values) values {
			return values{primitives.Mul(ct[0], primitives.MulScalar(primitives.Square(x[0]), 3))}
		}, x)[0]
}

func trace(t *testing.T, fn func(*graph.Tracer) values) *graph.Program {
	t.Helper()
	p, err := graph.Trace("model", fn)
	require.NoError(t, err)
	require.NoError(t, graph.Check(p))
	return p
}

func vector(t *testing.T, x ...float64) array.Array {
	t.Helper()
	a, err := array.Of(x, len(x))
	require.NoError(t, err)
	return a
}

// evaluate runs p on the mesh, "" for one rank, with x split over it.
func evaluate(t *testing.T, p *graph.Program, mesh string, in map[string]array.Array) [][]float64 {
	t.Helper()
	cfg := gomoe.Config{}
	if mesh != "" {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		cfg.Mesh = m
		cfg.Place = map[string]sharding.Spec{"x": sharding.Split(m.Axes[0].Name)}
	}
	out, err := gomoe.Run(context.Background(), p, cfg, in)
	require.NoError(t, err)
	var xs [][]float64
	for _, a := range out {
		xs = append(xs, a.Float64s())
	}
	return xs
}

func same(t *testing.T, what string, got []float64, want ...float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
	for i := range got {
		if math.Abs(got[i]-want[i]) > 1e-12 {
			t.Errorf("%s: %v, want %v", what, got, want)
			return
		}
	}
}

func TestCustomDerivativeIsUsed(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) values {
		x := tr.Input("x", graph.F64, 4)
		loss := primitives.ReduceSum(primitives.Square(straightThrough(x)))
		return append(values{loss}, vjp.Gradients(loss, x)...)
	})
	in := map[string]array.Array{"x": vector(t, 0.4, 0.6, -1.7, 2.5)}
	for _, mesh := range []string{"", "a=2", "a=4"} {
		out := evaluate(t, p, mesh, in)
		same(t, mesh+" loss", out[0], 0+1+4+9)
		same(t, mesh+" gradient", out[1], 0, 2, -4, 6) // 2·round(x), and not 0
	}
}

func TestCustomClipsGradient(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) values {
		x := tr.Input("x", graph.F64, 4)
		loss := primitives.ReduceSum(primitives.Square(clipGradient(x, 1.5)))
		return append(values{loss}, vjp.Gradients(loss, x)...)
	})
	in := map[string]array.Array{"x": vector(t, 0.25, 3, -0.5, -9)}
	for _, mesh := range []string{"", "a=2"} {
		same(t, mesh+" gradient", evaluate(t, p, mesh, in)[1], 0.5, 1.5, -1, -1.5)
	}
}

func TestCustomGradientOfGradient(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) values {
		x := tr.Input("x", graph.F64, 2)
		return values{primitives.ReduceSum(cube(cube(x)))} // x⁹
	})
	first, err := vjp.Grad(p)
	require.NoError(t, err)
	second, err := graph.Trace("second", func(tr *graph.Tracer) values {
		x := tr.Input("x", graph.F64, 2)
		g := tr.Replay(first, values{x})[1]
		return vjp.Gradients(primitives.ReduceSum(g), x)
	})
	require.NoError(t, err)
	in := map[string]array.Array{"x": vector(t, 1.1, -0.8)}
	same(t, "first", evaluate(t, first, "a=2", in)[1], 9*math.Pow(1.1, 8), 9*math.Pow(0.8, 8))
	same(t, "second", evaluate(t, second, "a=2", in)[0], 72*math.Pow(1.1, 7), -72*math.Pow(0.8, 7))

	rep, err := vjp.Check(context.Background(), p, in, func(p *graph.Program) (vjp.Eval, error) {
		j, err := gomoe.Open(t.Context(), p, gomoe.Config{})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { j.Close() })
		return j.Step, nil
	}, vjp.CheckOptions{})
	require.NoError(t, err)
	if !rep.OK() {
		t.Errorf("cube's derivative:\n%s", rep)
	}
}

// A custom function inside a custom function: the outer derivative is used.
func TestCustomNested(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) values {
		x := tr.Input("x", graph.F64, 2)
		y := vjp.Custom("outer",
			func(_ *graph.Tracer, x values) values { return values{cube(x[0])} },
			func(_ *graph.Tracer, x, _, ct values) values {
				return values{primitives.MulScalar(clipGradient(ct[0], 2), 10)}
			},
			x)[0]
		z := vjp.Custom("through",
			func(_ *graph.Tracer, x values) values { return values{cube(x[0])} },
			func(_ *graph.Tracer, x, _, ct values) values { return vjp.Backward(values{cube(x[0])}, ct, x) },
			x)[0]
		loss := primitives.ReduceSum(primitives.Add(y, z))
		return append(values{loss}, vjp.Gradients(loss, x)...)
	})
	in := map[string]array.Array{"x": vector(t, 2, -3)}
	for _, mesh := range []string{"", "a=2"} {
		out := evaluate(t, p, mesh, in)
		same(t, "loss", out[0], 2*(8-27))
		same(t, "gradient", out[1], 10+12, 10+27)
	}
}

// A custom function may have several arguments, one of them integers, and several
// results, one of which is not used.
func TestCustomManyArgumentsAndResults(t *testing.T) {
	seen := []bool{}
	p := trace(t, func(tr *graph.Tracer) values {
		x, n, w := tr.Input("x", graph.F64, 2), tr.Input("n", graph.I32, 2), tr.Input("w", graph.F64, 2)
		out := vjp.Custom("many",
			func(_ *graph.Tracer, a values) values {
				return values{primitives.Mul(a[0], a[2]), primitives.Neg(a[1]), primitives.Exp(a[0])}
			},
			func(_ *graph.Tracer, x, y, ct values) values {
				for _, v := range ct {
					seen = append(seen, v != nil)
				}
				g := primitives.Add(primitives.Mul(ct[0], x[2]), primitives.Mul(ct[2], y[2]))
				return values{primitives.Add(g, primitives.ConvertElementType(x[1], graph.F64)), nil, nil}
			}, x, n, w)
		loss := primitives.ReduceSum(out[0])
		return append(values{loss, out[1]}, vjp.Gradients(loss, x, w)...)
	})
	require.Equal(t, []bool{true, false, true}, seen)
	ints, err := array.Of([]int32{5, 7}, 2)
	require.NoError(t, err)
	out := evaluate(t, p, "", map[string]array.Array{"x": vector(t, 1, 2), "n": ints, "w": vector(t, 3, 4)})
	same(t, "negated", out[1], -5, -7)
	same(t, "x", out[2], 3+5, 4+7)
	same(t, "w", out[3], 0, 0)
}

func TestCustomText(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) values {
		x := tr.Input("x", graph.F64, 4)
		y := clipGradient(straightThrough(clipGradient(x, 2)), 0.5)
		return values{primitives.ReduceSum(primitives.Square(y))}
	})
	g, err := vjp.Grad(p)
	require.NoError(t, err)
	in := map[string]array.Array{"x": vector(t, 0.1, 0.9, 7, -7)}
	for _, q := range []*graph.Program{p, g} {
		text := q.String()
		back, err := gomoe.Parse("text", text)
		require.NoError(t, err, text)
		if back.String() != text {
			t.Errorf("the text changes when read back:\n%s\n%s", text, back)
		}
		want, got := evaluate(t, q, "", in), evaluate(t, back, "a=2", in)
		for i := range want {
			same(t, "result of what was read back", got[i], want[i]...)
		}
	}
	back, err := gomoe.Parse("text", p.String())
	require.NoError(t, err)
	g2, err := vjp.Grad(back)
	require.NoError(t, err)
	if g2.String() != g.String() {
		t.Errorf("the gradient of what was read back differs:\n%s\n%s", g2, g)
	}
}

func TestCustomMistakes(t *testing.T) {
	id := func(_ *graph.Tracer, x values) values { return x }
	pass := func(_ *graph.Tracer, _, _, ct values) values { return ct }
	for _, c := range []struct {
		name, want string
		build      func(x, n *graph.Value)
	}{
		{"too few", "1 cotangents for 2 arguments, want one for each, nil for zero",
			func(x, n *graph.Value) {
				vjp.Custom("f", id, func(_ *graph.Tracer, _, _, ct values) values { return ct[:1] }, x, n)
			}},
		{"wrong type", "the cotangent of argument 0 is f64[], want f64[2], as the argument is f64[2]",
			func(x, n *graph.Value) {
				vjp.Custom("f", id, func(_ *graph.Tracer, _, _, ct values) values { return values{primitives.ReduceSum(ct[0])} }, x)
			}},
		{"of integers", "a cotangent for argument 1, which is i32[2], want nil",
			func(x, n *graph.Value) {
				vjp.Custom("f", id, func(_ *graph.Tracer, x, _, ct values) values { return x }, x, n)
			}},
		{"mistake in fn", "add(f64[2], i32[2])",
			func(x, n *graph.Value) {
				vjp.Custom("f", func(_ *graph.Tracer, x values) values { return values{primitives.Add(x[0], x[1])} }, pass, x, n)
			}},
		{"mistake in bwd", "custom f: derivative: custom_test.go:",
			func(x, n *graph.Value) {
				vjp.Custom("f", id, func(_ *graph.Tracer, x, _, ct values) values { return values{primitives.Exp(x[1]), nil} }, x, n)
			}},
		{"value of the surrounding trace", "belongs to another trace; pass it as an input",
			func(x, n *graph.Value) {
				vjp.Custom("f", func(_ *graph.Tracer, _ values) values { return values{primitives.Exp(x)} }, pass, x)
			}},
		{"name", "letter or _",
			func(x, n *graph.Value) { vjp.Custom("my f", id, pass, x) }},
		{"no arguments", "custom f has no arguments",
			func(x, n *graph.Value) { vjp.Custom("f", id, pass) }},
		{"nil argument", "argument 1 is nil",
			func(x, n *graph.Value) { vjp.Custom("f", id, pass, x, nil) }},
		{"nil result", "result 0 is nil",
			func(x, n *graph.Value) {
				vjp.Custom("f", func(*graph.Tracer, values) values { return values{nil} }, pass, x)
			}},
		{"no derivative", "want both",
			func(x, n *graph.Value) { vjp.Custom("f", id, nil, x) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := graph.Trace("model", func(tr *graph.Tracer) values {
				x, n := tr.Input("x", graph.F64, 2), tr.Input("n", graph.I32, 2)
				c.build(x, n)
				return values{x}
			})
			require.Error(t, err)
			if !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "custom_test.go:") {
				t.Errorf("error %q, want it at custom_test.go and to say %q", err, c.want)
			}
		})
	}
}
