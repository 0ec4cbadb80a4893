package primitives_test

import (
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// gradients returns the gradient of the sum of f with respect to every
// argument.
func gradients(t *testing.T, f func(x []*graph.Value) *graph.Value, in ...array.Array) []array.Array {
	t.Helper()
	return compute(t, func(x []*graph.Value) []*graph.Value { return vjp.Gradients(primitives.ReduceSum(f(x)), x...) }, in...)
}

// TestGradientsAtKinks compares with jax.grad.
func TestGradientsAtKinks(t *testing.T) {
	for _, c := range []struct {
		name     string
		f        unary
		in, want array.Array
	}{
		{"abs", primitives.Abs, f64s(0, neg, -1, 2), f64s(1, 1, -1, 1)},
		{"sqrt", primitives.Sqrt, f64s(0, 4, -1), f64s(inf, 0.25, nan)},
		{"rsqrt", primitives.Rsqrt, f64s(0, 4), f64s(-inf, -0.0625)},
		{"logistic", primitives.Logistic, f64s(0, 40, 800, -800), f64s(0.25, 0, 0, 0)},
		{"tanh", primitives.Tanh, f64s(0, 20), f64s(1, 0)},
		{"log", primitives.Log, f64s(0, 0.5), f64s(inf, 2)},
		{"log1p", primitives.Log1p, f64s(1e-18, 1), f64s(1, 0.5)},
		{"expm1", primitives.Expm1, f64s(1e-18, 0), f64s(1, 1)},
		{"square", primitives.Square, f64s(0, -3), f64s(0, -6)},
	} {
		identical(t, c.name, gradients(t, func(x []*graph.Value) *graph.Value { return c.f(x[0]) }, c.in)[0], c.want)
	}
	for _, c := range []struct {
		name   string
		f      binary
		x, y   array.Array
		dx, dy array.Array
	}{
		{"max", primitives.Max, f64s(1, 2, 1, nan, nan, 1), f64s(2, 1, 1, 1, nan, nan), f64s(0, 1, 0.5, 0, 0, 0), f64s(1, 0, 0.5, 0, 0, 0)},
		{"min", primitives.Min, f64s(1, 2, 1, nan, nan, 1), f64s(2, 1, 1, 1, nan, nan), f64s(1, 0, 0.5, 0, 0, 0), f64s(0, 1, 0.5, 0, 0, 0)},
		{"rem", primitives.Rem, f64s(5.5, -5.5, 5.5, -5.5, 1), f64s(2, 2, -2, -2, 3), f64s(1, 1, 1, 1, 1), f64s(-2, 2, 2, -2, neg)},
		{"pow of 0 and below", primitives.Pow, f64s(0, 0, 0, 0, -2, -2, -2), f64s(0, 1, 2, -1, 2, 3, 0),
			f64s(nan, 1, 0, -inf, -4, 12, neg), f64s(0, 0, 0, nan, nan, nan, nan)},
		{"div", primitives.Div, f64s(1, 6), f64s(2, -3), f64s(0.5, -1./3), f64s(-0.25, -2./3)},
	} {
		got := gradients(t, func(x []*graph.Value) *graph.Value { return c.f(x[0], x[1]) }, c.x, c.y)
		identical(t, c.name+" with respect to x", got[0], c.dx)
		identical(t, c.name+" with respect to y", got[1], c.dy)
	}
}

func TestGradientsOfClamp(t *testing.T) {
	clamp := func(x []*graph.Value) *graph.Value { return primitives.Clamp(x[0], x[1], x[2]) }
	got := gradients(t, clamp, f64s(0, 0, 0, 0, 0, 0, 2, 2), f64s(-1, 0, 0.5, 1, 2, nan, 1.5, 3), f64s(1, 1, 1, 1, 1, 1, 1, 1))
	identical(t, "min", got[0], f64s(1, 0, 0, 0, 0, 0, 0, 0))
	identical(t, "x", got[1], f64s(0, 0, 1, 0, 0, 0, 0, 0))
	identical(t, "max", got[2], f64s(0, 0, 0, 0, 1, 0, 1, 1))
	got = gradients(t, clamp, array.Scalar(0.), f64s(-1, -2, 0.5, 3), array.Scalar(1.))
	identical(t, "scalar min", got[0], array.Scalar(2.))
	identical(t, "x between scalars", got[1], f64s(0, 0, 1, 0))
	identical(t, "scalar max", got[2], array.Scalar(1.))
}

// An integer out of range selects the nearest case, which has the cotangent.
func TestGradientsOfSelection(t *testing.T) {
	which := vec[int32](-4, 0, 1, 2, 9)
	got := compute(t, func(x []*graph.Value) []*graph.Value {
		y := primitives.SelectN(x[0], x[1:]...)
		return vjp.Gradients(primitives.ReduceSum(y), x[1:]...)
	}, which, f64s(1, 2, 3, 4, 5), f64s(1, 2, 3, 4, 5), f64s(1, 2, 3, 4, 5))
	identical(t, "case 0", got[0], f64s(1, 1, 0, 0, 0))
	identical(t, "case 1", got[1], f64s(0, 0, 1, 0, 0))
	identical(t, "case 2", got[2], f64s(0, 0, 0, 1, 1))
	// An infinite derivative of the case that is not chosen does no harm only if it
	// is never multiplied: the cotangent there is 0, and 0·Inf is NaN.
	safe := gradients(t, func(x []*graph.Value) *graph.Value {
		ok := primitives.Gt(x[0], primitives.ZerosLike(x[0]))
		return primitives.Where(ok, primitives.Log(primitives.Where(ok, x[0], primitives.OnesLike(x[0]))), primitives.ZerosLike(x[0]))
	}, f64s(0, 0.5))
	identical(t, "log, safe at 0", safe[0], f64s(0, 2))
}

func TestGradientsOfConversion(t *testing.T) {
	got := compute(t, func(x []*graph.Value) []*graph.Value {
		y := primitives.ConvertElementType(primitives.Mul(x[0], x[0]), graph.F32)
		return vjp.Gradients(primitives.ReduceSum(primitives.Mul(y, x[1])), x[0], x[1])
	}, f64s(1, -3).As(graph.BF16), vec[float32](2, 0.5))
	identical(t, "bf16", got[0], f64s(4, -3).As(graph.BF16))
	identical(t, "f32", got[1], vec[float32](1, 9))
}
