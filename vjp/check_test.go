package vjp_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/vjp"
)

// wrongAt is Σ x² with a derivative that is off by `by` at one element.
func wrongAt(element int, by float64) func(*graph.Tracer) []*graph.Value {
	return func(tr *graph.Tracer) []*graph.Value {
		x, w := tr.Input("x", graph.F64, 2, 2), tr.Input("w", graph.F64, 2, 2)
		off := make([]float64, 4)
		off[element] = by
		rule := func(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
			return []*graph.Value{toy.Do("off", func(a *exec.Args) error {
				y := a.In[0].Float64s()
				for i := range y {
					y[i] += off[i]
				}
				return a.Out[0].SetFloat64s(y)
			}, ct[0])}, nil
		}
		return []*graph.Value{toy.Sum(toy.Mul(toy.Differentiate("wrong", rule, toy.Square(x)), w))}
	}
}

func square(t *testing.T, x ...float64) array.Array {
	t.Helper()
	a, err := array.Of(x, 2, 2)
	require.NoError(t, err)
	return a
}

// A wrong derivative is found, and the report names the input, the element and
// both values.
func TestCheckWrong(t *testing.T) {
	in := map[string]array.Array{"x": square(t, 1, 2, 3, -1), "w": square(t, 1, 1, 2, 1)}
	rep, err := vjp.Check(t.Context(), program(t, wrongAt(2, 0)), in, evaluator, vjp.CheckOptions{})
	require.NoError(t, err)
	require.True(t, rep.OK(), rep.String())
	require.Equal(t, 4, rep.Inputs[0].Checked)
	require.True(t, strings.HasPrefix(rep.String(), "ok     x f64[2,2]: 4 checked; worst at ["), rep.String())

	for element, index := range [][]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}} {
		rep, err := vjp.Check(t.Context(), program(t, wrongAt(element, 0.001)), in, evaluator, vjp.CheckOptions{Seed: 3})
		require.NoError(t, err)
		require.False(t, rep.OK(), rep.String())
		x, w := rep.Inputs[0], rep.Inputs[1]
		require.False(t, x.OK)
		require.True(t, w.OK, rep.String())
		require.Equal(t, index, x.Worst.Index)
		// The rule adds 0.001 to the cotangent, and 2x follows.
		off := 0.001 * 2 * in["x"].Float64s()[element]
		if d := x.Worst.Analytic - x.Worst.Numeric - off; math.Abs(d) > 1e-6 {
			t.Errorf("element %d: derivative %v, differences %v, want them %v apart", element, x.Worst.Analytic, x.Worst.Numeric, off)
		}
		require.Contains(t, rep.String(), "WRONG  x f64[2,2]: 4 checked; worst at [")
	}
	rep, err = vjp.Check(t.Context(), program(t, wrongAt(0, 0.001)), in, evaluator, vjp.CheckOptions{Wrt: []string{"w"}})
	require.NoError(t, err)
	require.True(t, rep.OK(), "only w is checked")
	require.Len(t, rep.Inputs, 1)
	rep, err = vjp.Check(t.Context(), program(t, wrongAt(0, 0.001)), in, evaluator, vjp.CheckOptions{Tolerance: 0.01})
	require.NoError(t, err)
	require.True(t, rep.OK(), "within the tolerance")
	rep, err = vjp.Check(t.Context(), program(t, wrongAt(0, 0)), in, evaluator, vjp.CheckOptions{Elements: 3})
	require.NoError(t, err)
	require.Equal(t, 3, rep.Inputs[1].Checked)
}

// Not-a-number and infinite derivatives are wrong, and do not make others pass.
func TestCheckNotFinite(t *testing.T) {
	in := map[string]array.Array{"x": square(t, 1, 2, 3, 4), "w": square(t, 1, 1, 1, 1)}
	for _, by := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		rep, err := vjp.Check(t.Context(), program(t, wrongAt(1, by)), in, evaluator, vjp.CheckOptions{})
		require.NoError(t, err)
		require.False(t, rep.OK(), rep.String())
		require.Equal(t, []int{0, 1}, rep.Inputs[0].Worst.Index)
		require.Less(t, rep.Inputs[0].Bound, 1.0)
		text, err := json.Marshal(rep)
		require.NoError(t, err)
		var doc struct {
			Program string
			Inputs  []struct {
				Name  string
				OK    bool
				Worst struct {
					Index    []int
					Analytic any
					Numeric  float64
					Error    any
				}
			}
		}
		require.NoError(t, json.Unmarshal(text, &doc), string(text))
		require.Equal(t, "p", doc.Program)
		require.Equal(t, "x", doc.Inputs[0].Name)
		require.Equal(t, []int{0, 1}, doc.Inputs[0].Worst.Index)
		require.IsType(t, "", doc.Inputs[0].Worst.Analytic)
		require.Equal(t, "+Inf", doc.Inputs[0].Worst.Error)
		require.False(t, doc.Inputs[0].OK)
		require.True(t, doc.Inputs[1].OK)
	}
}

// Where a step of differences changes a choice, the function has a kink. The element is
// left out, and the report says which choice changed.
func TestCheckKink(t *testing.T) {
	p := program(t, func(tr *graph.Tracer) []*graph.Value { // relu
		x := tr.Input("x", graph.F64, 4)
		return []*graph.Value{toy.Sum(toy.Gate(toy.Above(x), x))}
	})
	x := f64(t, 1, 1e-7, -1e-7, -1)
	rep, err := vjp.Check(t.Context(), p, map[string]array.Array{"x": x}, evaluator, vjp.CheckOptions{})
	require.NoError(t, err)
	in := rep.Inputs[0]
	require.True(t, rep.OK(), rep.String())
	require.Equal(t, 2, in.Checked)
	require.Equal(t, 2, in.Rerouted)
	require.Contains(t, rep.String(), ", 2 left out: routing changed (above at check_test.go:")
	require.Equal(t, []float64{1, 1e-7, -1e-7, -1}, x.Float64s(), "the caller's array")
}

func TestCheckErrors(t *testing.T) {
	p := program(t, cubic)
	_, err := vjp.Check(t.Context(), p, nil, evaluator, vjp.CheckOptions{Wrt: []string{"n"}})
	require.ErrorContains(t, err, "vjp: input n is i32[3]; only float types have a gradient")
	in := cubicInputs(t)
	delete(in, "w")
	_, err = vjp.Check(t.Context(), p, in, evaluator, vjp.CheckOptions{})
	require.ErrorContains(t, err, "input w f64[3] of p_vjp is not given")
	broken := errors.New("no machine")
	_, err = vjp.Check(t.Context(), p, cubicInputs(t), func(*graph.Program) (vjp.Eval, error) { return nil, broken }, vjp.CheckOptions{})
	require.ErrorIs(t, err, broken)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = vjp.Check(ctx, p, cubicInputs(t), evaluator, vjp.CheckOptions{})
	require.ErrorIs(t, err, context.Canceled)
}

// Derivatives are compared by their own scale: one that is left out is found though it is
// much less than 1, and one that is right passes though central differences are
// uncertain by more than a millionth of it.
func TestCheckSmall(t *testing.T) {
	none := func(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) { return nil, nil }
	for _, factor := range []float64{1, 1e-3, 1e-7, 1e-9, 1e-30} {
		for _, wrong := range []bool{true, false} {
			p := program(t, func(tr *graph.Tracer) []*graph.Value {
				x := tr.Input("x", graph.F64, 2)
				y := x
				if wrong {
					y = toy.Differentiate("none", none, x)
				}
				return []*graph.Value{toy.Sum(toy.Scale(factor, y))}
			})
			rep, err := vjp.Check(t.Context(), p, map[string]array.Array{"x": f64(t, 0.3, -0.7)}, evaluator, vjp.CheckOptions{})
			require.NoError(t, err)
			if rep.OK() == wrong {
				t.Errorf("derivative %g, left out %v: %s", factor, wrong, rep)
			}
		}
	}
	// The derivative 3x² of x³ is so small that differences over steps of 1e-5 miss it by
	// 1e-10, the square of the step.
	p := program(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F64, 1)
		return []*graph.Value{toy.Sum(toy.Mul(x, toy.Square(x)))}
	})
	for _, at := range []float64{0, 1e-7, 1e-5, 1e-3, 0.1} {
		rep, err := vjp.Check(t.Context(), p, map[string]array.Array{"x": f64(t, at)}, evaluator, vjp.CheckOptions{})
		require.NoError(t, err)
		require.True(t, rep.OK(), "x³ at %g: %s", at, rep)
	}
}

// Where the function is not a number there is no derivative to compare, and the report says so.
func TestCheckUndefined(t *testing.T) {
	p := program(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F64, 2)
		return []*graph.Value{toy.Sum(toy.Mul(x, x))}
	})
	rep, err := vjp.Check(t.Context(), p, map[string]array.Array{"x": f64(t, math.Inf(1), 1)}, evaluator, vjp.CheckOptions{})
	require.NoError(t, err)
	require.False(t, rep.OK())
	require.Contains(t, rep.String(), "NaN    x f64[2]")
	require.Contains(t, rep.String(), "the results are not finite at or near this element")
	_, err = vjp.Grad(nil)
	require.EqualError(t, err, "vjp: the program is nil")
}
