package array

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomoe/gomoe/graph"
	"github.com/stretchr/testify/require"
)

var dtypes = []graph.DType{graph.Bool, graph.U8, graph.U32, graph.I32, graph.I64, graph.F16, graph.BF16, graph.F32, graph.F64}

func of[E Elem](t *testing.T, data ...E) Array {
	t.Helper()
	a, err := Of(data, len(data))
	require.NoError(t, err)
	return a
}

// The results are those of jax.lax.convert_element_type (JAX 0.10.2, CPU), as
// in TestConvertIntegers, except for i64 to bf16.
func TestConvertFloatToInteger(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	x := of(t, 0, math.Copysign(0, -1), 1.9, -1.9, nan, inf, -inf, 300, -300, 3e9, -3e9, 5e9, 1e20, -1e20, 1<<31, 1<<63, -1<<63)
	const lo, hi = math.MinInt64, math.MaxInt64
	i32 := []int32{0, 0, 1, -1, 0, math.MaxInt32, math.MinInt32, 300, -300, math.MaxInt32, math.MinInt32, math.MaxInt32, math.MaxInt32, math.MinInt32, math.MaxInt32, math.MaxInt32, math.MinInt32}
	i64 := []int64{0, 0, 1, -1, 0, hi, lo, 300, -300, 3e9, -3e9, 5e9, hi, lo, 1 << 31, hi, lo}
	u8 := []uint8{0, 0, 1, 0, 0, 255, 0, 255, 0, 255, 0, 255, 255, 0, 255, 255, 0}
	u32 := []uint32{0, 0, 1, 0, 0, math.MaxUint32, 0, 300, 0, 3e9, 0, math.MaxUint32, math.MaxUint32, 0, 1 << 31, math.MaxUint32, 0}
	for _, d := range []graph.DType{graph.F64, graph.F32, graph.BF16} {
		a := x.As(d)
		want64, wantU32 := slices.Clone(i64), slices.Clone(u32)
		if d == graph.BF16 {
			want64[9], want64[10], want64[11], wantU32[9] = 3003121664, -3003121664, 4999610368, 3003121664
		}
		expect(t, a, i32)
		expect(t, a, want64)
		expect(t, a, u8)
		expect(t, a, wantU32)
		expect(t, a, []bool{false, false, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true})
	}
	expect(t, x.As(graph.F16), []int64{0, 0, 1, -1, 0, hi, lo, 300, -300, hi, lo, hi, hi, lo, hi, hi, lo})
}

func TestConvertIntegers(t *testing.T) {
	x := of[int64](t, 1<<40+1<<32+1, -(1<<40 + 1<<32 + 1), 257, -1, 1<<31, 1<<62|1<<54|1, 65519, 65520, 0)
	expect(t, x, []int32{1, -1, 257, -1, math.MinInt32, 1, 65519, 65520, 0})
	expect(t, x, []uint8{1, 255, 1, 255, 0, 1, 239, 240, 0})
	expect(t, x, []uint32{1, math.MaxUint32, 257, math.MaxUint32, 1 << 31, 1, 65519, 65520, 0})
	expect(t, x, []bool{true, true, true, true, true, true, true, true, false})
	expect(t, x, []float32{1103806595072, -1103806595072, 257, -1, 2147483648, 4.62970041693687e+18, 65519, 65520, 0})
	expect(t, x.As(graph.BF16), []float64{1<<40 + 1<<33, -(1<<40 + 1<<33), 256, -1, 1 << 31, 1<<62 + 1<<55, 65536, 65536, 0})
	expect(t, x.As(graph.F16), []float64{math.Inf(1), math.Inf(-1), 257, -1, math.Inf(1), math.Inf(1), 65504, math.Inf(1), 0})
	expect(t, of[int32](t, -1, 7), []int64{-1, 7})
	expect(t, of[uint32](t, math.MaxUint32), []int64{math.MaxUint32})
	expect(t, of(t, true, false), []float32{1, 0})
	expect(t, of(t, true, false), []int64{1, 0})
	// One beyond a tie of bf16 and of two float64 roundings: 2^62+2^54 is the tie.
	expect(t, of[int64](t, 1<<62+1<<54+1, -(1<<62+1<<54+1), 1<<62+1<<54, math.MinInt64, math.MaxInt64).As(graph.BF16),
		[]float64{0x1.02p62, -0x1.02p62, 0x1p62, -0x1p63, 0x1p63})
}

func TestConvertRoundsOnce(t *testing.T) {
	x := of(t, 1+0x1p-8+0x1p-40, 1+0x1p-8, 1+0x1p-8-0x1p-40, -1-0x1p-8-0x1p-40)
	expect(t, x.As(graph.BF16), []float64{1 + 0x1p-7, 1, 1, -1 - 0x1p-7})
	y := of(t, 1+0x1p-11+0x1p-40, 1+0x1p-11, 1+0x1p-11-0x1p-40, -1-0x1p-11-0x1p-40)
	expect(t, y.As(graph.F16), []float64{1 + 0x1p-10, 1, 1, -1 - 0x1p-10})
}

func expect[E Elem](t *testing.T, a Array, want []E) {
	t.Helper()
	if got := Data[E](a.As(DTypeOf[E]())); !slices.Equal(got, want) {
		t.Errorf("%s as %s is\n%v, want\n%v", a.Type, DTypeOf[E](), got, want)
	}
}

// Small whole numbers survive every pair of types.
func TestConvertEveryPair(t *testing.T) {
	for _, from := range dtypes {
		for _, to := range dtypes {
			x := []float64{0, 1, 2, 100, 0, 7}
			if from == graph.Bool || to == graph.Bool {
				x = []float64{0, 1, 1, 0, 1, 0}
			}
			a := New(graph.T(from, 2, 3))
			require.NoError(t, a.SetFloat64s(x))
			b := a.As(to)
			if got := b.Float64s(); !slices.Equal(got, x) || !b.Type.Equal(graph.T(to, 2, 3)) {
				t.Errorf("%s to %s: %s %v, want %v", from, to, b.Type, got, x)
			}
			if Convert(New(graph.T(to, 0, 4)), New(graph.T(from, 0, 4))) != nil {
				t.Errorf("%s to %s: empty arrays do not convert", from, to)
			}
		}
	}
}

func TestConvertErrors(t *testing.T) {
	require.EqualError(t, Convert(New(graph.T(graph.I32, 3, 2)), New(graph.T(graph.F32, 2, 3))),
		"array: convert f32[2,3] into i32[3,2]: the shapes differ, want one shape")
	require.ErrorContains(t, Convert(New(graph.T(graph.I32)), Array{}), "none")
	a := New(graph.T(graph.I32, 3))
	require.EqualError(t, a.SetFloat64s([]float64{1}), "array: 1 elements for i32[3], want 3")
}

func TestEqual(t *testing.T) {
	nan := of(t, math.NaN(), 0)
	for i, c := range []struct {
		a, b Array
		want bool
	}{
		{nan, nan.Clone(), true},
		{of(t, 0.0), of(t, math.Copysign(0, -1)), false},
		{of[int32](t, 1), of[uint32](t, 1), false},
		{New(graph.T(graph.F32, 2, 3)), New(graph.T(graph.F32, 3, 2)), false},
		{Array{}, Array{}, true},
	} {
		if got := Equal(c.a, c.b); got != c.want {
			t.Errorf("case %d: Equal(%s, %s) is %v", i, c.a.Type, c.b.Type, got)
		}
	}
}

func TestMaxDiff(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for i, c := range []struct {
		a, b  Array
		max   float64
		index int
	}{
		{of(t, 1.0, 2, 3, 4), of(t, 1, 2.5, 3, 3.5), 0.5, 1},
		{of(t, 1.0, 2), of(t, 1.0, 2), 0, 0},
		{of(t, inf, nan, -inf), of(t, inf, nan, -inf), 0, 0},
		{of(t, 1.0, 2, inf), of(t, 1.0, 9, -inf), inf, 2},
		{of(t, 1.0, nan, 3), of(t, 9.0, 2, 3), inf, 1},
		{of(t, 1.0), of(t, 1.0, 2), inf, -1},
		{of[float64](t), of[float64](t), 0, -1},
		{of[int64](t, math.MaxInt64, 5), of[int64](t, math.MaxInt64-1, 5), 1, 0},
		{of[int64](t, math.MinInt64), of[int64](t, math.MaxInt64), 0x1p64, 0},
		{of[float32](t, 1), of[int32](t, 3), 2, 0},
	} {
		if d, at := MaxDiff(c.a, c.b); d != c.max || at != c.index {
			t.Errorf("case %d: %v at %d, want %v at %d", i, d, at, c.max, c.index)
		}
	}
}

func TestString(t *testing.T) {
	big := New(graph.T(graph.F32, 100, 100))
	for i := range Data[float32](big) {
		Data[float32](big)[i] = float32(i)
	}
	for i, c := range []struct {
		a    Array
		want string
	}{
		{Array{}, "none[]"},
		{Scalar(float32(1.5)), "f32[] 1.5"},
		{of[int64](t), "i64[0] []"},
		{of(t, true, false), "bool[2] [true false]"},
		{of(t, 1, -0.25, math.NaN(), math.Inf(-1)), "f64[4] [1 -0.25 NaN -Inf]"},
		{of(t, float32(0.1)).As(graph.BF16), "bf16[1] [0.1001]"},
		{New(graph.T(graph.U8, 2, 3)), "u8[2,3]\n[[0 0 0]\n [0 0 0]]"},
		{New(graph.T(graph.U8, 2, 0)), "u8[2,0]\n[[]\n []]"},
		{New(graph.T(graph.I32, 2, 2, 1)), "i32[2,2,1]\n[[[0]\n  [0]]\n\n [[0]\n  [0]]]"},
		{big, "f32[100,100]\n" + strings.Join([]string{
			"[[   0    1    2 ...   97   98   99]",
			" [ 100  101  102 ...  197  198  199]",
			" [ 200  201  202 ...  297  298  299]",
			" ...",
			" [9700 9701 9702 ... 9797 9798 9799]",
			" [9800 9801 9802 ... 9897 9898 9899]",
			" [9900 9901 9902 ... 9997 9998 9999]]"}, "\n")},
	} {
		if got := fmt.Sprint(c.a); got != c.want {
			t.Errorf("case %d prints\n%s\nwant\n%s", i, got, c.want)
		}
	}
}

// New says which size is wrong, where make would say that a length is out of range.
func TestNewNegative(t *testing.T) {
	require.PanicsWithValue(t, "array: New(f32[2,-3]): size -3 in dimension 1, want 0 or more", func() { New(graph.T(graph.F32, 2, -3)) })
}
