package optimize_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// TestBits runs the kernels that identities leaves out on numbers where a rule
// could be wrong: all of the 16-bit types but signaling NaNs, and the corners of
// the others.
func TestBits(t *testing.T) {
	for _, x := range []array.Array{all16(graph.BF16, 7), all16(graph.F16, 10), corners32(), corners64()} {
		d := x.Type.DType
		p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
			v := tr.Input("x", d, x.Type.Shape...)
			one := primitives.OnesLike(v)
			return []*graph.Value{
				primitives.Mul(v, one), primitives.Mul(one, v), primitives.Div(v, one), primitives.Neg(primitives.Neg(v)),
			}
		})
		require.NoError(t, err)
		for _, as := range []bool{true, false} {
			out, err := gomoe.Run(context.Background(), p, gomoe.Config{Optimize: gomoe.SwitchTo(!as)}, map[string]array.Array{"x": x})
			require.NoError(t, err)
			for i, y := range out {
				if array.Equal(y, x) {
					continue
				}
				for j, b := range bits(y) {
					if a := bits(x)[j]; a != b {
						t.Errorf("%s, result %d, as written %v: %#x became %#x", d, i, as, a, b)
					}
				}
			}
		}
	}
}

// TestConstantBits compares constants that were folded with what the kernels
// make of the same constants.
func TestConstantBits(t *testing.T) {
	numbers := []float64{0, math.Copysign(0, -1), 1, -1, 3, 0.1, -7.25, 255, 65504, 1e-8, 1e30, 5e-324, math.Inf(1), math.NaN()}
	fits := func(d graph.DType, x float64) bool {
		if d.IsFloat() {
			return d != graph.F16 || x != 1e30
		}
		return x == math.Trunc(x) && x >= 0 && x <= 255
	}
	for _, d := range []graph.DType{graph.U8, graph.U32, graph.I32, graph.I64, graph.F16, graph.BF16, graph.F32, graph.F64} {
		p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
			var out []*graph.Value
			for _, a := range numbers {
				if !fits(d, a) {
					continue
				}
				x := primitives.Full(tr, a, d)
				out = append(out, primitives.Neg(x), primitives.Square(x))
				for _, to := range []graph.DType{graph.Bool, graph.U8, graph.I32, graph.I64, graph.F16, graph.BF16, graph.F32, graph.F64} {
					out = append(out, primitives.ConvertElementType(x, to))
				}
				for _, b := range numbers {
					if !fits(d, b) {
						continue
					}
					y := primitives.Full(tr, b, d)
					out = append(out, primitives.Add(x, y), primitives.Sub(x, y), primitives.Mul(x, y), primitives.Div(x, y))
					if d.IsFloat() {
						out = append(out, graph.Apply1(graph.AddAnyOp{}, x, y))
					}
				}
			}
			return out
		})
		require.NoError(t, err)
		got, err := gomoe.Run(context.Background(), p, gomoe.Config{}, nil)
		require.NoError(t, err)
		want, err := gomoe.Run(context.Background(), p, gomoe.Config{Optimize: gomoe.Off}, nil)
		require.NoError(t, err)
		for i := range want {
			if !array.Equal(got[i], want[i]) {
				t.Errorf("%s: got %v, want %v of\n%s", d, got[i], want[i], p.Out[i].Def.Prim.Name())
			}
		}
	}
}

// all16 returns all numbers of a 16-bit type with that many bits behind the
// point, and the quiet NaNs.
func all16(d graph.DType, mantissa int) array.Array {
	var keep []uint16
	for i := range 1 << 16 {
		exponent := i & 0x7fff >> mantissa << mantissa
		infinite := exponent == 0x7fff>>mantissa<<mantissa
		if infinite && i&(1<<mantissa-1) != 0 && i&(1<<(mantissa-1)) == 0 {
			continue // a signaling NaN
		}
		keep = append(keep, uint16(i))
	}
	a := array.New(graph.T(d, len(keep)))
	for i, b := range keep {
		if d == graph.BF16 {
			array.Data[array.Brain](a)[i] = array.Brain(b)
		} else {
			array.Data[array.Half](a)[i] = array.Half(b)
		}
	}
	return a
}

func corners32() array.Array {
	b := []uint32{0, 1 << 31, 1, 0x80000001, 0x7fffff, 0x800000, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7fffffff, 0x3f800000}
	a := array.New(graph.T(graph.F32, len(b)))
	for i := range b {
		array.Data[float32](a)[i] = math.Float32frombits(b[i])
	}
	return a
}

func corners64() array.Array {
	b := []uint64{0, 1 << 63, 1, 1<<63 | 1, 1<<52 - 1, 1 << 52, 0x7fefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000001, 0xffffffffffffffff}
	a := array.New(graph.T(graph.F64, len(b)))
	for i := range b {
		array.Data[float64](a)[i] = math.Float64frombits(b[i])
	}
	return a
}

func bits(a array.Array) []uint64 {
	var out []uint64
	switch a.Type.DType {
	case graph.BF16:
		for _, x := range array.Data[array.Brain](a) {
			out = append(out, uint64(x))
		}
	case graph.F16:
		for _, x := range array.Data[array.Half](a) {
			out = append(out, uint64(x))
		}
	case graph.F32:
		for _, x := range array.Data[float32](a) {
			out = append(out, uint64(math.Float32bits(x)))
		}
	case graph.F64:
		for _, x := range array.Data[float64](a) {
			out = append(out, math.Float64bits(x))
		}
	}
	return out
}
