package vjp_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/vjp"
)

func program(t *testing.T, fn func(*graph.Tracer) []*graph.Value) *graph.Program {
	t.Helper()
	p, err := graph.Trace("p", fn)
	require.NoError(t, err)
	return p
}

// evaluator runs programs on one rank.
func evaluator(p *graph.Program) (vjp.Eval, error) {
	l, err := toy.Plan(p, toy.Setup{})
	if err != nil {
		return nil, err
	}
	s, err := toy.Open(l, runtime.Options{Threads: 1})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, in map[string]array.Array) ([]array.Array, error) {
		return toy.Eval(ctx, s, in)
	}, nil
}

func f64(t *testing.T, x ...float64) array.Array {
	t.Helper()
	a, err := array.Of(x, len(x))
	require.NoError(t, err)
	return a
}

func run(t *testing.T, p *graph.Program, in map[string]array.Array) [][]float64 {
	t.Helper()
	require.NoError(t, graph.Check(p))
	eval, err := evaluator(p)
	require.NoError(t, err)
	out, err := eval(t.Context(), in)
	require.NoError(t, err)
	var got [][]float64
	for _, a := range out {
		got = append(got, a.Float64s())
	}
	return got
}

// cubic is Σ x·x·w, with an input of integers and one that is not used.
func cubic(tr *graph.Tracer) []*graph.Value {
	x, w := tr.Input("x", graph.F64, 3), tr.Input("w", graph.F64, 3)
	tr.Input("n", graph.I32, 3)
	tr.Input("unused", graph.F64, 2)
	return []*graph.Value{toy.Sum(toy.Mul(toy.Mul(x, w), x)), x}
}

func cubicInputs(t *testing.T) map[string]array.Array {
	n, err := array.Of([]int32{1, 2, 3}, 3)
	require.NoError(t, err)
	return map[string]array.Array{"x": f64(t, 1, 2, 3), "w": f64(t, 5, -1, 2), "n": n, "unused": f64(t, 7, 7)}
}

// Grad keeps the results and appends the gradients: that of an input that is used twice,
// and zeros for an input that is not used. Integers have none.
func TestGrad(t *testing.T) {
	g, err := vjp.Grad(program(t, cubic))
	require.NoError(t, err)
	require.Equal(t, "p_grad", g.Name)
	require.Equal(t, [][]float64{{19}, {1, 2, 3}, {10, -4, 12}, {1, 4, 9}, {0, 0}}, run(t, g, cubicInputs(t)))
	require.Regexp(t, regexp.MustCompile(`return v\d+, x, "grad\(x\)", "grad\(w\)", "grad\(unused\)"\n}\n$`), g.String())

	g, err = vjp.Grad(program(t, cubic), "w")
	require.NoError(t, err)
	require.Equal(t, [][]float64{{19}, {1, 2, 3}, {1, 4, 9}}, run(t, g, cubicInputs(t)))
	g, err = vjp.Grad(program(t, cubic), "unused", "x")
	require.NoError(t, err)
	require.Equal(t, [][]float64{{19}, {1, 2, 3}, {0, 0}, {10, -4, 12}}, run(t, g, cubicInputs(t)))
}

// A gradient is a program, so it has one: d/dx Σ (d loss/dx) is 2w.
func TestGradOfGrad(t *testing.T) {
	g, err := vjp.Grad(program(t, cubic), "x")
	require.NoError(t, err)
	sum, err := graph.Trace("sum", func(tr *graph.Tracer) []*graph.Value {
		var args []*graph.Value
		for _, v := range g.In {
			args = append(args, tr.Input(v.Name, v.Type.DType, v.Type.Shape...))
		}
		out := tr.Replay(g, args)
		return []*graph.Value{toy.Sum(out[2])}
	})
	require.NoError(t, err)
	gg, err := vjp.Grad(sum, "x", "w")
	require.NoError(t, err)
	require.Equal(t, [][]float64{{18}, {10, -2, 4}, {2, 4, 6}}, run(t, gg, cubicInputs(t)))
}

func TestPullback(t *testing.T) {
	p := program(t, func(tr *graph.Tracer) []*graph.Value {
		x, c := tr.Input("x", graph.F64, 2), tr.Input("ct_1", graph.F64, 2)
		return []*graph.Value{toy.Mul(x, c), toy.Above(x), toy.Square(x)}
	})
	q, err := vjp.Pullback(p, "x")
	require.NoError(t, err)
	require.Equal(t, "p_vjp", q.Name)
	var names []string
	for _, v := range q.In {
		names = append(names, v.Name)
	}
	// An input has the name ct_1, so the prefix is ct2. The integer result has no cotangent.
	require.Equal(t, "x ct_1 ct2_0 ct2_2", strings.Join(names, " "))
	got := run(t, q, map[string]array.Array{"x": f64(t, 3, -1), "ct_1": f64(t, 10, 20), "ct2_0": f64(t, 1, 2), "ct2_2": f64(t, 1, 1)})
	require.Equal(t, [][]float64{{16, 38}}, got)
}

func TestGradErrors(t *testing.T) {
	scalar := program(t, cubic)
	vector := program(t, func(tr *graph.Tracer) []*graph.Value { return []*graph.Value{tr.Input("x", graph.F64, 3)} })
	integer := program(t, func(tr *graph.Tracer) []*graph.Value {
		tr.Input("x", graph.F64)
		return []*graph.Value{tr.Input("n", graph.I32)}
	})
	nothing := program(t, func(tr *graph.Tracer) []*graph.Value { tr.Input("x", graph.F64); return nil })
	for _, c := range []struct {
		p    *graph.Program
		wrt  []string
		want string
	}{
		{scalar, []string{"v"}, `vjp: program p has no input "v"; inputs of float type are x, w, unused`},
		{scalar, []string{"x", "n"}, "vjp: input n is i32[3]; only float types have a gradient: x, w, unused"},
		{vector, nil, "vjp: the first result of program p is f64[3], want a scalar of float type; reduce it with reduce_sum"},
		{integer, nil, "vjp: the first result of program p is i32[], want a scalar of float type; reduce it with reduce_sum"},
		{nothing, nil, "vjp: program p has no result to differentiate"},
	} {
		_, err := vjp.Grad(c.p, c.wrt...)
		require.ErrorContains(t, err, c.want)
	}
	_, err := vjp.Pullback(scalar, "n")
	require.ErrorContains(t, err, "vjp: input n is i32[3]; only float types have a gradient")
}

// Mistakes inside a trace are errors at the line of the model.
func TestGradientMistakes(t *testing.T) {
	done := program(t, cubic)
	for _, c := range []struct {
		name string
		fn   func(tr *graph.Tracer, x, loss *graph.Value) []*graph.Value
		want string
	}{
		{"nil loss", func(tr *graph.Tracer, x, loss *graph.Value) []*graph.Value { return vjp.Gradients(nil, x) },
			"gradient of a value that is nil"},
		{"vector", func(tr *graph.Tracer, x, loss *graph.Value) []*graph.Value { return vjp.Gradients(x, x) },
			"gradient of f64[3]: want a scalar of float type; reduce it with reduce_sum first"},
		{"integer", func(tr *graph.Tracer, x, loss *graph.Value) []*graph.Value { return vjp.Gradients(loss, toy.Above(x)) },
			"gradient with respect to  i32[3]: only float types have one"},
		{"nil", func(tr *graph.Tracer, x, loss *graph.Value) []*graph.Value { return vjp.Gradients(loss, nil) },
			"gradient with respect to a value that is nil"},
		{"ended", func(tr *graph.Tracer, x, loss *graph.Value) []*graph.Value {
			return vjp.Gradients(done.Out[0], done.In[0])
		}, "the trace has ended"},
		{"too few cotangents", func(tr *graph.Tracer, x, loss *graph.Value) []*graph.Value {
			return vjp.Backward([]*graph.Value{loss, x}, []*graph.Value{nil}, []*graph.Value{x})
		}, "1 cotangents for 2 values; give one for each, nil for zero"},
		{"cotangent of another type", func(tr *graph.Tracer, x, loss *graph.Value) []*graph.Value {
			return vjp.Backward([]*graph.Value{loss}, []*graph.Value{x}, []*graph.Value{x})
		}, "cotangent 0 is f64[3], want f64[] for a value of f64[]"},
		{"no rule", func(tr *graph.Tracer, x, loss *graph.Value) []*graph.Value {
			return vjp.Gradients(toy.Sum(toy.Opaque(x)), x)
		}, "opaque(f64[3]): the primitive has no derivative; use stop_gradient where none is wanted, or attach one with a custom VJP"},
		{"a rule with too few answers", func(tr *graph.Tracer, x, loss *graph.Value) []*graph.Value {
			few := func(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return []*graph.Value{nil, nil}, nil }
			return vjp.Gradients(toy.Sum(toy.Differentiate("few", few, x)), x)
		}, "few(f64[3]): the derivative rule answered for 2 arguments, want 1"},
		{"a rule with another type", func(tr *graph.Tracer, x, loss *graph.Value) []*graph.Value {
			odd := func(_ *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
				return []*graph.Value{toy.Sum(ct[0])}, nil
			}
			return vjp.Gradients(toy.Sum(toy.Differentiate("odd", odd, x)), x)
		}, "odd(f64[3]): the cotangent of argument 0 is f64[], want f64[3]"},
	} {
		_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
			x := tr.Input("x", graph.F64, 3)
			return c.fn(tr, x, toy.Sum(x))
		})
		var e *graph.Error
		require.ErrorAs(t, err, &e, c.name)
		if !strings.HasPrefix(err.Error(), "grad_test.go:") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// Only equations between wrt and the loss are differentiated. Equations that compute a
// value of wrt need no derivative rule.
func TestGradientOfIntermediate(t *testing.T) {
	p := program(t, func(tr *graph.Tracer) []*graph.Value {
		h := toy.Opaque(tr.Input("x", graph.F64, 3))
		return vjp.Gradients(toy.Sum(toy.Square(h)), h)
	})
	for _, e := range p.Eqns[1:] {
		if e.Prim.Name() == "opaque" {
			t.Errorf("opaque is differentiated\n%s", p)
		}
	}
	require.NoError(t, graph.Check(p))
}

// A panic of a derivative rule is an error that names the rule and its line.
func TestRulePanics(t *testing.T) {
	p := program(t, func(tr *graph.Tracer) []*graph.Value {
		bad := func(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { panic("mine") }
		return []*graph.Value{toy.Sum(toy.Differentiate("bad", bad, tr.Input("x", graph.F64, 2)))}
	})
	_, err := vjp.Grad(p)
	require.Error(t, err)
	require.Regexp(t, `^grad_test.go:\d+: bad\(f64\[2\]\): the primitive's VJP panics at grad_test.go:\d+: mine$`, err.Error())
}
