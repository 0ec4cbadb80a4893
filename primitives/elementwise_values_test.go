package primitives_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/vjp"
)

var neg = math.Copysign(0, -1)

// compute runs the program that build builds, on inputs with these values.
func compute(t *testing.T, build func(x []*graph.Value) []*graph.Value, in ...array.Array) []array.Array {
	t.Helper()
	args := map[string]array.Array{}
	p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		var x []*graph.Value
		for i, a := range in {
			name := fmt.Sprintf("x%d", i)
			x = append(x, tr.Input(name, a.Type.DType, a.Type.Shape...))
			args[name] = a
		}
		return build(x)
	})
	require.NoError(t, err)
	out, err := gomoe.Run(context.Background(), p, gomoe.Config{Options: runtime.Options{Poison: true, Threads: 3}}, args)
	require.NoError(t, err)
	return out
}

func vec[E array.Elem](x ...E) array.Array {
	a, err := array.Of(x, len(x))
	if err != nil {
		panic(err)
	}
	return a
}

// f64s is vec for literals without a decimal point.
func f64s(x ...float64) array.Array { return vec(x...) }

type unary = func(x *graph.Value) *graph.Value
type binary = func(x, y *graph.Value) *graph.Value

// identical compares bits. All NaNs count as the same.
func identical(t *testing.T, what string, got, want array.Array) {
	t.Helper()
	if !got.Type.Equal(want.Type) {
		t.Errorf("%s: type %s, want %s", what, got.Type, want.Type)
		return
	}
	x, y := got.Float64s(), want.Float64s()
	for i := range x {
		if math.Float64bits(x[i]) != math.Float64bits(y[i]) && !(x[i] != x[i] && y[i] != y[i]) {
			t.Errorf("%s: element %d is %v, want %v\ngot  %v\nwant %v", what, i, x[i], y[i], x, y)
			return
		}
	}
}

func TestUnaryValues(t *testing.T) {
	for _, c := range []struct {
		name     string
		f        unary
		in, want array.Array
	}{
		{"neg", primitives.Neg, f64s(1, 0, neg, inf, nan), f64s(-1, neg, 0, -inf, nan)},
		{"neg i32", primitives.Neg, vec[int32](5, math.MinInt32), vec[int32](-5, math.MinInt32)},
		{"neg u8", primitives.Neg, vec[uint8](1, 0), vec[uint8](255, 0)},
		{"abs", primitives.Abs, f64s(-1.5, neg, -inf, nan), f64s(1.5, 0, inf, nan)},
		{"abs f32", primitives.Abs, vec[float32](-1.5, 0), vec[float32](1.5, 0)},
		{"abs i32", primitives.Abs, vec[int32](-3, 4, math.MinInt32), vec[int32](3, 4, math.MinInt32)},
		{"sign", primitives.Sign, f64s(-3, 0, neg, inf, nan, 1e-300), f64s(-1, 0, neg, 1, nan, 1)},
		{"sign i64", primitives.Sign, vec[int64](-7, 0, 7), vec[int64](-1, 0, 1)},
		{"sign u32", primitives.Sign, vec[uint32](0, 9), vec[uint32](0, 1)},
		{"square", primitives.Square, f64s(-3, inf, nan), f64s(9, inf, nan)},
		{"square i32", primitives.Square, vec[int32](70000, -3), vec[int32](605032704, 9)},
		{"floor", primitives.Floor, f64s(-0.5, neg, 0.5, -2, inf, nan), f64s(-1, neg, 0, -2, inf, nan)},
		{"ceil", primitives.Ceil, f64s(-0.5, 0.5, 2), f64s(neg, 1, 2)},
		{"round", primitives.Round, f64s(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, nan, 0.49999999999999994), f64s(-3, -2, -1, 1, 2, 3, nan, 0)},
		{"round f32", primitives.Round, vec[float32](2.5, -0.5), vec[float32](3, -1)},
		{"round to even", primitives.RoundToEven, f64s(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5), f64s(-2, -2, neg, 0, 2, 2)},
		{"exp", primitives.Exp, f64s(-inf, inf, nan, 710, -750), f64s(0, inf, nan, inf, 0)},
		{"expm1", primitives.Expm1, f64s(-inf, 710), f64s(-1, inf)},
		{"log", primitives.Log, f64s(0, -1, inf, nan), f64s(-inf, nan, inf, nan)},
		{"log1p", primitives.Log1p, f64s(-1, -2), f64s(-inf, nan)},
		{"sqrt", primitives.Sqrt, f64s(neg, -1, inf, 9), f64s(neg, nan, inf, 3)},
		{"rsqrt", primitives.Rsqrt, f64s(0, neg, 4, inf, -1), f64s(inf, -inf, 0.5, 0, nan)},
		{"logistic", primitives.Logistic, f64s(0, 800, -800, inf, -inf, nan), f64s(0.5, 1, 0, 1, 0, nan)},
		{"tanh", primitives.Tanh, f64s(0, neg, 30, -inf, nan), f64s(0, neg, 1, -1, nan)},
		{"erf", primitives.Erf, f64s(0, neg, inf, -inf, nan), f64s(0, neg, 1, -1, nan)},
		{"is_finite", primitives.IsFinite, f64s(0, 1e308, inf, -inf, nan), vec(true, true, false, false, false)},
		{"is_finite bf16", primitives.IsFinite, f64s(1, inf, nan).As(graph.BF16), vec(true, false, false)},
		{"not", primitives.Not, vec(true, false), vec(false, true)},
		{"not i32", primitives.Not, vec[int32](0, -1, 5), vec[int32](-1, 0, -6)},
		{"not u8", primitives.Not, vec[uint8](0, 1), vec[uint8](255, 254)},
		{"not i64", primitives.Not, vec[int64](0), vec[int64](-1)},
		{"stop_gradient", primitives.StopGradient, vec(true, false), vec(true, false)},
	} {
		got := compute(t, func(x []*graph.Value) []*graph.Value { return []*graph.Value{c.f(x[0])} }, c.in)
		identical(t, c.name, got[0], c.want)
	}
}

// The expected numbers come from jax.lax in f64.
func TestUnaryAccuracy(t *testing.T) {
	x := []float64{-3, -1e-9, -0.5, 0.3, 1e-9, 2.75, 30}
	for _, c := range []struct {
		name string
		f    unary
		want []float64
	}{
		{"exp", primitives.Exp, []float64{0.049787068367863944, 0.999999999, 0.6065306597126334, 1.3498588075760032, 1.000000001, 15.642631884188171, 10686474581524.463}},
		{"expm1", primitives.Expm1, []float64{-0.950212931632136, -9.999999995e-10, -0.3934693402873665, 0.34985880757600313, 1.0000000005000001e-09, 14.642631884188171, 10686474581523.463}},
		{"sin", primitives.Sin, []float64{-0.1411200080598672, -1e-09, -0.479425538604203, 0.29552020666133955, 1e-09, 0.38166099205233167, -0.9880316240928618}},
		{"cos", primitives.Cos, []float64{-0.9899924966004454, 1, 0.8775825618903728, 0.955336489125606, 1, -0.9243023786324636, 0.15425144988758405}},
		{"tanh", primitives.Tanh, []float64{-0.9950547536867305, -1e-09, -0.4621171572600098, 0.29131261245159085, 1e-09, 0.9918597245682077, 1}},
		{"logistic", primitives.Logistic, []float64{0.04742587317756678, 0.49999999975, 0.3775406687981454, 0.574442516811659, 0.50000000025, 0.9399133498259924, 0.9999999999999065}},
		{"erf", primitives.Erf, []float64{-0.9999779095030014, -1.1283791670955127e-09, -0.5204998778130465, 0.3286267594591274, 1.1283791670955127e-09, 0.9998993780778803, 1}},
		{"log1p |x|", func(x *graph.Value) *graph.Value { return primitives.Log1p(primitives.Abs(x)) },
			[]float64{1.3862943611198906, 9.999999995e-10, 0.4054651081081644, 0.26236426446749106, 9.999999995e-10, 1.3217558399823195, 3.4339872044851463}},
		{"log |x|", func(x *graph.Value) *graph.Value { return primitives.Log(primitives.Abs(x)) },
			[]float64{1.0986122886681098, -20.72326583694641, -0.6931471805599453, -1.2039728043259361, -20.72326583694641, 1.0116009116784799, 3.4011973816621555}},
	} {
		for _, d := range []struct {
			dtype graph.DType
			tol   float64
		}{{graph.F64, 1e-14}, {graph.F32, 1e-7}} {
			in := f64s(x...).As(d.dtype)
			got := compute(t, func(x []*graph.Value) []*graph.Value { return []*graph.Value{c.f(x[0])} }, in)[0].Float64s()
			for i := range got {
				// Rounding the input changes a function by more the larger the input is.
				slack := d.tol * (1 + math.Abs(x[i]))
				if math.Abs(got[i]-c.want[i]) > slack*math.Abs(c.want[i]) {
					t.Errorf("%s(%v) in %s is %v, want %v", c.name, x[i], d.dtype, got[i], c.want[i])
				}
			}
		}
	}
}

func TestBinaryValues(t *testing.T) {
	least := int32(math.MinInt32)
	for _, c := range []struct {
		name       string
		f          binary
		x, y, want array.Array
	}{
		{"add", primitives.Add, f64s(1, inf, inf), f64s(2, 1, -inf), f64s(3, inf, nan)},
		{"add i32 wraps", primitives.Add, vec[int32](math.MaxInt32), vec[int32](1), vec(least)},
		{"sub u8 wraps", primitives.Sub, vec[uint8](1), vec[uint8](2), vec[uint8](255)},
		{"mul i64", primitives.Mul, vec[int64](1<<40, -3), vec[int64](3, 5), vec[int64](3<<40, -15)},
		{"mul u32 wraps", primitives.Mul, vec[uint32](1 << 31), vec[uint32](2), vec[uint32](0)},
		{"div", primitives.Div, f64s(1, -1, 0, 7), f64s(0, 0, 0, 2), f64s(inf, -inf, nan, 3.5)},
		{"div i32", primitives.Div, vec(7, -7, 7, 5, -5, 0, least), vec[int32](2, 2, -2, 0, 0, 0, -1), vec(3, -3, -3, -1, -1, -1, least)},
		{"div u8", primitives.Div, vec[uint8](7, 200), vec[uint8](0, 3), vec[uint8](255, 66)},
		{"div i64", primitives.Div, vec[int64](math.MinInt64, 9), vec[int64](-1, 0), vec[int64](math.MinInt64, -1)},
		{"div u32", primitives.Div, vec[uint32](9), vec[uint32](0), vec[uint32](math.MaxUint32)},
		{"rem", primitives.Rem, f64s(5.5, -5.5, 5.5, 1, 1, inf, neg, -4), f64s(2, 2, -2, 0, inf, 1, 3, 2), f64s(1.5, -1.5, 1.5, nan, 1, nan, neg, neg)},
		{"rem i32", primitives.Rem, vec(7, -7, 5, -5, 0, least), vec[int32](2, 2, 0, 0, 0, -1), vec[int32](1, -1, 5, -5, 0, 0)},
		{"rem u8", primitives.Rem, vec[uint8](7, 200), vec[uint8](0, 3), vec[uint8](7, 2)},
		{"pow", primitives.Pow, f64s(-2, -2, 0, 0, 2, nan, 1, -1, inf, -8), f64s(3, 0.5, 0, -1, inf, 0, nan, inf, -1, 1./3), f64s(-8, nan, 1, inf, inf, 1, 1, 1, 0, nan)},
		{"max", primitives.Max, f64s(nan, 1, nan, 0, neg, -inf), f64s(1, nan, nan, neg, 0, 3), f64s(nan, nan, nan, 0, 0, 3)},
		{"min", primitives.Min, f64s(nan, 1, nan, 0, neg, -inf), f64s(1, nan, nan, neg, 0, 3), f64s(nan, nan, nan, neg, neg, -inf)},
		{"max f32", primitives.Max, vec[float32](1, 2, float32(nan)), vec[float32](3, -1, 0), vec[float32](3, 2, float32(nan))},
		{"max i32", primitives.Max, vec(3, least), vec[int32](-4, 0), vec[int32](3, 0)},
		{"min u32", primitives.Min, vec[uint32](3, math.MaxUint32), vec[uint32](4, 0), vec[uint32](3, 0)},
		{"max bool", primitives.Max, vec(true, true, false, false), vec(true, false, true, false), vec(true, true, true, false)},
		{"min bool", primitives.Min, vec(true, true, false, false), vec(true, false, true, false), vec(true, false, false, false)},
		{"and", primitives.And, vec(true, true, false, false), vec(true, false, true, false), vec(true, false, false, false)},
		{"or", primitives.Or, vec(true, true, false, false), vec(true, false, true, false), vec(true, true, true, false)},
		{"xor", primitives.Xor, vec(true, true, false, false), vec(true, false, true, false), vec(false, true, true, false)},
		{"and i32", primitives.And, vec[int32](12, -1), vec[int32](10, 7), vec[int32](8, 7)},
		{"or i64", primitives.Or, vec[int64](12, -1), vec[int64](10, 7), vec[int64](14, -1)},
		{"xor u8", primitives.Xor, vec[uint8](12, 255), vec[uint8](10, 7), vec[uint8](6, 248)},
	} {
		got := compute(t, func(x []*graph.Value) []*graph.Value { return []*graph.Value{c.f(x[0], x[1])} }, c.x, c.y)
		identical(t, c.name, got[0], c.want)
	}
}

func TestComparisonValues(t *testing.T) {
	ops := []binary{primitives.Eq, primitives.Ne, primitives.Lt, primitives.Le, primitives.Gt, primitives.Ge}
	less := []bool{false, true, true, true, false, false}
	same := []bool{true, false, false, true, false, true}
	more := []bool{false, true, false, false, true, true}
	never := []bool{false, true, false, false, false, false}
	for _, c := range []struct {
		x, y array.Array
		want [][]bool
	}{
		{f64s(1, 2, 3, 0, nan, 1, nan, -inf), f64s(2, 2, 2, neg, 1, nan, nan, inf), [][]bool{less, same, more, same, never, never, never, less}},
		{vec[float32](1, 2, 3), vec[float32](2, 2, 2), [][]bool{less, same, more}},
		{f64s(1, 2, 3, nan).As(graph.BF16), f64s(2, 2, 2, 2).As(graph.BF16), [][]bool{less, same, more, never}},
		{f64s(1, 2, 3, nan).As(graph.F16), f64s(2, 2, 2, 2).As(graph.F16), [][]bool{less, same, more, never}},
		{vec[int32](-1, 2, 3), vec[int32](0, 2, -3), [][]bool{less, same, more}},
		{vec[int64](1<<53, 2, 3), vec[int64](1<<53+1, 2, -3), [][]bool{less, same, more}},
		{vec[uint32](1, 2, math.MaxUint32), vec[uint32](2, 2, 0), [][]bool{less, same, more}},
		{vec[uint8](1, 2, 255), vec[uint8](2, 2, 0), [][]bool{less, same, more}},
		{vec(false, true, true, false), vec(true, true, false, false), [][]bool{less, same, more, same}},
	} {
		got := compute(t, func(x []*graph.Value) []*graph.Value {
			var out []*graph.Value
			for _, f := range ops {
				out = append(out, f(x[0], x[1]))
			}
			return out
		}, c.x, c.y)
		for i, name := range []string{"eq", "ne", "lt", "le", "gt", "ge"} {
			for j, b := range array.Data[bool](got[i]) {
				if b != c.want[j][i] {
					t.Errorf("%s of %s: element %d of %v and %v is %v", name, c.x.Type, j, c.x, c.y, b)
				}
			}
		}
	}
}

func TestSelectionValues(t *testing.T) {
	pick := func(in ...array.Array) array.Array {
		t.Helper()
		return compute(t, func(x []*graph.Value) []*graph.Value { return []*graph.Value{primitives.SelectN(x[0], x[1:]...)} }, in...)[0]
	}
	a, b, c := f64s(10, 11, 12, 13, 14, 15), f64s(20, 21, 22, 23, 24, 25), f64s(30, 31, 32, 33, 34, 35)
	identical(t, "bool", pick(vec(true, false, true, false, true, false), a, b), f64s(20, 11, 22, 13, 24, 15))
	identical(t, "i32 with the nearest case", pick(vec[int32](-1, 0, 1, 2, 3, 9), a, b, c), f64s(10, 11, 22, 33, 34, 35))
	identical(t, "i64", pick(vec[int64](math.MinInt64, 0, 1, 2, math.MaxInt64, 1), a, b, c), f64s(10, 11, 22, 33, 34, 25))
	identical(t, "u32", pick(vec[uint32](math.MaxUint32, 0, 1, 2, 1, 0), a, b, c), f64s(30, 11, 22, 33, 24, 15))
	identical(t, "scalar bool", pick(array.Scalar(true), a, b), b)
	identical(t, "scalar bool", pick(array.Scalar(false), a, b), a)
	identical(t, "scalar u8", pick(array.Scalar(uint8(7)), a, b, c), c)
	identical(t, "one case", pick(vec(true, false, true, false, true, false), a), a)
	identical(t, "one case of i32", pick(array.Scalar(int32(3)), a), a)
	identical(t, "NaN that is not chosen", pick(vec(true, false), f64s(nan, 1), f64s(2, inf)), f64s(2, 1))
	identical(t, "of bf16", pick(vec(true, false), f64s(1, 2).As(graph.BF16), f64s(3, 4).As(graph.BF16)), f64s(3, 2).As(graph.BF16))
	identical(t, "of bool", pick(vec(true, false), vec(true, true), vec(false, false)), vec(false, true))
	where := compute(t, func(x []*graph.Value) []*graph.Value { return []*graph.Value{primitives.Where(x[0], x[1], x[2])} },
		vec(true, false), f64s(1, 2), f64s(3, 4))[0]
	identical(t, "where", where, f64s(1, 4))
}

func TestClampValues(t *testing.T) {
	clamp := func(lo, x, hi array.Array) array.Array {
		t.Helper()
		return compute(t, func(x []*graph.Value) []*graph.Value { return []*graph.Value{primitives.Clamp(x[0], x[1], x[2])} }, lo, x, hi)[0]
	}
	x := f64s(-1, 0.5, 2, nan)
	identical(t, "scalars", clamp(array.Scalar(0.), x, array.Scalar(1.)), f64s(0, 0.5, 1, nan))
	identical(t, "NaN bound", clamp(array.Scalar(nan), x, array.Scalar(1.)), f64s(nan, nan, nan, nan))
	identical(t, "crossed bounds", clamp(array.Scalar(2.), f64s(-1, 0.5, 3, 1.5), array.Scalar(1.)), f64s(1, 1, 1, 1))
	identical(t, "one scalar", clamp(array.Scalar(0.), x, f64s(3, 0.25, 1, 1)), f64s(0, 0.25, 1, nan))
	identical(t, "the other scalar", clamp(f64s(-2, 1, 3, 0), x, array.Scalar(4.)), f64s(-1, 1, 3, nan))
	identical(t, "one element", clamp(f64s(1), f64s(0), array.Scalar(4.)), f64s(1))
	identical(t, "i32", clamp(array.Scalar(int32(-1)), vec[int32](-5, 0, 5), array.Scalar(int32(2))), vec[int32](-1, 0, 2))
	identical(t, "u8", clamp(vec[uint8](1, 1), vec[uint8](0, 200), vec[uint8](2, 100)), vec[uint8](1, 100))
	identical(t, "bool", clamp(array.Scalar(true), vec(false, true), array.Scalar(true)), vec(true, true))
	bf := graph.BF16
	identical(t, "bf16", clamp(array.Scalar(0.).As(bf), x.As(bf), f64s(3, 0.25, 1, 1).As(bf)), f64s(0, 0.25, 1, nan).As(bf))
}

func TestConvertValues(t *testing.T) {
	for _, c := range []struct{ in, want array.Array }{
		{f64s(-1.5, 2.7, nan, 1e20, -1e20), vec[int32](-1, 2, 0, math.MaxInt32, math.MinInt32)},
		{f64s(-1.5, 0, neg, nan), vec(true, false, false, true)},
		{vec[int32](-1, 300), vec[uint8](255, 44)},
		{vec(true, false), f64s(1, 0)},
		{vec(true, false), vec[int64](1, 0)},
		{vec[int32](-2, 5), vec[float32](-2, 5)},
		{f64s(1+0x1p-8, 1+3*0x1p-8, 1e39, -2.5), f64s(1, 1.015625, inf, -2.5).As(graph.BF16)},
		{vec[float32](1.5, -2), f64s(1.5, -2).As(graph.F16)},
		{f64s(1.5, -2).As(graph.F16), vec[float32](1.5, -2)},
		{f64s(1.5, nan).As(graph.BF16), vec(float32(1.5), float32(nan))},
	} {
		got := compute(t, func(x []*graph.Value) []*graph.Value {
			return []*graph.Value{primitives.ConvertElementType(x[0], c.want.Type.DType)}
		}, c.in)
		identical(t, c.in.Type.String()+" to "+c.want.Type.String(), got[0], c.want)
	}
}

func TestConstants(t *testing.T) {
	out := compute(t, func(x []*graph.Value) []*graph.Value {
		tr := x[0].Tracer()
		return []*graph.Value{primitives.MulScalar(x[0], 0.1), primitives.AddScalar(x[1], -3), primitives.ZerosLike(x[0]), primitives.OnesLike(x[1]),
			primitives.FullLike(x[0], 2.5), primitives.Full(tr, 1, graph.Bool, 2), primitives.Full(tr, 7, graph.I64), primitives.MulScalar(x[2], 3)}
	}, vec[float32](1, -2), vec[int32](4, 5), f64s(1, 2).As(graph.BF16))
	identical(t, "scale", out[0], vec(float32(0.1), float32(-2)*0.1))
	identical(t, "add scalar", out[1], vec[int32](1, 2))
	identical(t, "zeros", out[2], vec[float32](0, 0))
	identical(t, "ones", out[3], vec[int32](1, 1))
	identical(t, "full like", out[4], vec[float32](2.5, 2.5))
	identical(t, "bool", out[5], vec(true, true))
	identical(t, "i64", out[6], array.Scalar[int64](7))
	identical(t, "bf16", out[7], f64s(3, 6).As(graph.BF16))
}

// TestNoCotangent: piecewise constant functions and stop_gradient pass no cotangent back.
func TestNoCotangent(t *testing.T) {
	for name, f := range map[string]unary{"floor": primitives.Floor, "ceil": primitives.Ceil, "round": primitives.Round, "sign": primitives.Sign, "stop_gradient": primitives.StopGradient,
		"is_finite": func(x *graph.Value) *graph.Value {
			return primitives.ConvertElementType(primitives.IsFinite(x), graph.F64)
		},
		"gt": func(x *graph.Value) *graph.Value {
			return primitives.ConvertElementType(primitives.Gt(x, primitives.ZerosLike(x)), graph.F64)
		},
		"to i32": func(x *graph.Value) *graph.Value {
			return primitives.ConvertElementType(primitives.ConvertElementType(x, graph.I32), graph.F64)
		},
	} {
		out := compute(t, func(x []*graph.Value) []*graph.Value { return vjp.Gradients(primitives.ReduceSum(f(x[0])), x[0]) }, f64s(-1.5, 0, 2))
		identical(t, name, out[0], f64s(0, 0, 0))
	}
}

// rsqrt of f32 is rounded once. Rounding the root first would be rounding twice.
func TestRsqrtRoundsOnce(t *testing.T) {
	x, want, twice := make([]float32, 500), make([]float32, 500), 0
	for i := range x {
		x[i] = float32(i + 1)
		want[i] = float32(1 / math.Sqrt(float64(x[i])))
		if want[i] != 1/float32(math.Sqrt(float64(x[i]))) {
			twice++
		}
	}
	require.NotZero(t, twice, "no element tells one rounding from two")
	got := compute(t, func(v []*graph.Value) []*graph.Value { return []*graph.Value{primitives.Rsqrt(v[0])} }, vec(x...))
	identical(t, "rsqrt", got[0], vec(want...))
}
