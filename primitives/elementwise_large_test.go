package primitives_test

import (
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// TestPieces runs kernels on arrays that are cut into tiles and shared by
// goroutines, with smaller last pieces, and compares elements with the same
// elements alone.
func TestPieces(t *testing.T) {
	const n = 1<<15 + 1029
	r := rand.New(rand.NewPCG(1, 2))
	number := func() array.Array {
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(r.IntN(2000)-1000) / 16
		}
		return f64s(x...)
	}
	x, y, flag := number(), number(), make([]bool, n)
	for i := range flag {
		flag[i] = r.IntN(2) == 0
	}
	build := func(v []*graph.Value) []*graph.Value {
		x, y, b := v[0], v[1], v[2]
		out := []*graph.Value{primitives.Neg(x), primitives.Square(x), primitives.Add(x, y), primitives.Mul(x, y), primitives.Div(x, y), primitives.Max(x, y), primitives.Rem(x, y),
			primitives.Lt(x, y), primitives.Eq(x, y), primitives.Where(b, x, y), primitives.Clamp(primitives.Full(x.Tracer(), 1, x.Type.DType), x, y), primitives.Not(b), primitives.And(b, b),
			primitives.SelectN(primitives.ConvertElementType(x, graph.I32), x, y, x), primitives.ConvertElementType(x, graph.BF16), primitives.ConvertElementType(x, graph.F32), primitives.ConvertElementType(x, graph.F16), primitives.ConvertElementType(x, graph.Bool)}
		if x.Type.DType.IsFloat() {
			out = append(out, primitives.Tanh(x), primitives.Abs(x), primitives.Round(x), primitives.IsFinite(x))
		}
		return out
	}
	for _, d := range []graph.DType{graph.F64, graph.F32, graph.BF16, graph.F16, graph.I32, graph.I64, graph.U32, graph.U8} {
		xs, ys, fs := x.As(d), y.As(d), vec(flag...)
		whole := compute(t, build, xs, ys, fs)
		// A few elements around the cuts, each in an array of its own.
		for _, i := range []int{0, 1023, 1024, 1025, n/3 - 1, n / 3, 2 * n / 3, n - 6, n - 1} {
			one := compute(t, build, xs.Rows(i, i+1).Clone(), ys.Rows(i, i+1).Clone(), fs.Rows(i, i+1).Clone())
			for k := range one {
				if !array.Equal(whole[k].Rows(i, i+1), one[k]) {
					t.Errorf("%s: result %d, element %d of %d is %v, alone %v", d, k, i, n, whole[k].Rows(i, i+1), one[k])
				}
			}
		}
		// All elements, in two arrays that are cut elsewhere.
		const cut = 4099
		for k, low := range compute(t, build, xs.Rows(0, cut).Clone(), ys.Rows(0, cut).Clone(), fs.Rows(0, cut).Clone()) {
			if !array.Equal(whole[k].Rows(0, cut), low) {
				t.Errorf("%s: result %d differs with the length of the array", d, k)
			}
		}
		for k, high := range compute(t, build, xs.Rows(cut, n).Clone(), ys.Rows(cut, n).Clone(), fs.Rows(cut, n).Clone()) {
			if !array.Equal(whole[k].Rows(cut, n), high) {
				t.Errorf("%s: result %d differs with the length of the array", d, k)
			}
		}
	}
}
