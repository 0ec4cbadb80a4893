package primitives_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

func TestElementwiseErrors(t *testing.T) {
	for _, c := range []struct{ args, call, want string }{
		{"x f32[2], y f32[3]", "add(x, y)", "shapes of f32[2] and f32[3] differ; broadcast one with broadcast_in_dim"},
		{"x f32[2], y bf16[2]", "mul(x, y)", "element types f32 and bf16 differ; convert one with convert_element_type"},
		{"x f32[2]", "add(x)", "1 arguments, want 2"},
		{"x f32[2]", "neg(x, x)", "2 arguments, want 1"},
		{"x bool[2]", "add(x, x)", "element type bool, want a float or integer type; convert"},
		{"x bool[2]", "neg(x)", "element type bool, want a float or integer type"},
		{"x u8[2]", "abs(x)", "element type u8, want a float type, i32 or i64"},
		{"x i32[2]", "exp(x)", "element type i32, want f64, f32, bf16 or f16"},
		{"x i32[2]", "pow(x, x)", "element type i32, want f64, f32, bf16 or f16"},
		{"x i32[2]", "round(x)", "element type i32, want f64, f32, bf16 or f16"},
		{"x i32[2]", "is_finite(x)", "element type i32, want f64, f32, bf16 or f16"},
		{"x f32[2]", "and(x, x)", "element type f32, want bool or an integer type"},
		{"x f32[2]", "not(x)", "element type f32, want bool or an integer type"},
		{"x bool[2]", "not(x, x)", "2 arguments, want 1"},
		{"x f32[2]", "lt(x)", "1 arguments, want 2"},
		{"x f32[2], w f32[2]", "select_n(w, x, x)", "which is f32[2], want bool or an integer type"},
		{"x f32[2], w bool[2]", "select_n(w, x, x, x)", "3 cases for a bool, want at most 2"},
		{"x f32[2], w bool[2]", "select_n(w)", "1 arguments, want which and one or more cases"},
		{"x f32[2], w bool[3]", "select_n(w, x, x)", "broadcast it with broadcast_in_dim"},
		{"x f32[2], y f32[3], w bool[2]", "select_n(w, x, y)", "cases: shapes of f32[2] and f32[3] differ"},
		{"x f32[2], lo f32[1]", "clamp(lo, x, x)", "min is f32[1], want the shape of x or no dimensions"},
		{"x f32[2], hi f64[]", "clamp(x, x, hi)", "max is f64[], want element type f32 as x"},
		{"x f32[2]", "clamp(x, x)", "2 arguments, want 3"},
		{"x f32[2]", "convert_element_type(x)", "dtype is missing; write dtype=f32"},
		{"x f32[2]", "stop_gradient(x, x)", "2 arguments, want 1"},
	} {
		_, err := gomoe.Parse("p", "program p("+c.args+") {\n r = "+c.call+"\n return r\n}")
		require.Error(t, err, c.call)
		if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "p:2") {
			t.Errorf("%s with %s: error %q, want one at p:2 that says %q", c.call, c.args, err, c.want)
		}
	}
}

func TestConstantErrors(t *testing.T) {
	for _, c := range []struct {
		d    graph.DType
		x    float64
		want bool
	}{
		{graph.I32, 0.5, false}, {graph.I32, 1 << 31, false}, {graph.I32, -1 << 31, true}, {graph.U8, -1, false}, {graph.U8, 255, true},
		{graph.U32, 1 << 32, false}, {graph.I64, 1 << 63, false}, {graph.I64, -1 << 63, true}, {graph.Bool, 2, false}, {graph.Bool, 1, true},
		{graph.I32, inf, false}, {graph.I64, nan, false}, {graph.F32, inf, true}, {graph.BF16, nan, true}, {graph.F16, 0.1, true},
	} {
		_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
			return []*graph.Value{primitives.Full(tr, c.x, c.d, 2)}
		})
		if (err == nil) != c.want {
			t.Errorf("full of %v in %s: error %v", c.x, c.d, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "elementwise_infer_test.go:") {
			t.Errorf("error %q is not at the user's line", err)
		}
	}
	for name, build := range map[string]func(tr *graph.Tracer) *graph.Value{
		"scale of integers by a half": func(tr *graph.Tracer) *graph.Value { return primitives.MulScalar(tr.Input("x", graph.I32, 2), 0.5) },
		"negative size":               func(tr *graph.Tracer) *graph.Value { return primitives.Full(tr, 0, graph.F32, -2) },
		"no element type":             func(tr *graph.Tracer) *graph.Value { return primitives.Full(tr, 0, graph.NoDType, 2) },
		"like nil":                    func(tr *graph.Tracer) *graph.Value { return primitives.ZerosLike(nil) },
	} {
		_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value { return []*graph.Value{build(tr)} })
		if err == nil || !strings.HasPrefix(err.Error(), "elementwise_infer_test.go:") {
			t.Errorf("%s: error %v, want one at the user's line", name, err)
		}
	}
}
