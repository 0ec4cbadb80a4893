package primitives_test

import (
	"context"
	"fmt"
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

// quantised returns x after QuantizeF8 and DequantizeF8.
func quantised(t *testing.T, x array.Array, d graph.DType, block int) (codes, scales, back array.Array) {
	t.Helper()
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		codes, scales := primitives.QuantizeF8(tr.Input("x", x.Type.DType, x.Type.Shape...), d, block)
		return []*graph.Value{codes, scales, primitives.DequantizeF8(codes, scales, x.Type.DType)}
	})
	out, err := gomoe.Run(context.Background(), p, gomoe.Config{}, map[string]array.Array{"x": x})
	require.NoError(t, err)
	return out[0], out[1], out[2]
}

// Elements are within the bound that QuantizeF8 states, and the largest of a block has the
// largest code.
func TestQuantizeF8(t *testing.T) {
	r := rng(4)
	for _, c := range []struct {
		d           graph.DType
		block       int
		largest     float64
		part, small float64
	}{
		{graph.F8_E4M3, 128, 448, 1. / 16, 1. / 450000}, {graph.F8_E4M3, 384, 448, 1. / 16, 1. / 450000},
		{graph.F8_E5M2, 128, 57344, 1. / 8, 1. / 7e9}, {graph.F8_E5M2, 1, 57344, 1. / 8, 1. / 7e9},
	} {
		x := array.New(graph.T(graph.F32, 2, 9, 384))
		for i := range array.Data[float32](x) {
			array.Data[float32](x)[i] = float32(r.NormFloat64() * math.Exp(8*r.NormFloat64()+float64(i/3456*40)))
		}
		clear(array.Data[float32](x)[:384])
		codes, scales, back := quantised(t, x, c.d, c.block)
		require.Equal(t, []int{2, 9, 384 / c.block}, scales.Type.Shape)
		for b := range scales.Type.Len() {
			part := array.Data[float32](x)[b*c.block : (b+1)*c.block]
			m := 0.0
			for _, v := range part {
				m = max(m, math.Abs(float64(v)))
			}
			s := array.Data[float32](scales)[b]
			if want := float32(m) / float32(c.largest); s != want && !(m == 0 && s == 1) {
				t.Fatalf("%+v: scale %d is %v, want %v", c, b, s, want)
			}
			for i, v := range part {
				got := float64(array.Data[float32](back)[b*c.block+i])
				if off := math.Abs(got - float64(v)); off > c.part*math.Abs(float64(v))+c.small*m {
					t.Fatalf("%+v: %v in a block up to %v becomes %v, off by %g", c, v, m, got, off)
				}
				if code := codes.Reshape(codes.Type.Len()).Rows(b*c.block+i, b*c.block+i+1).Float64s()[0]; m > 0 && math.Abs(float64(v)) == m && math.Abs(code) != c.largest {
					t.Fatalf("%+v: the largest element %v has code %v", c, v, code)
				}
			}
		}
	}
	// A block of tiny numbers becomes zeros; one with a NaN or an infinity becomes NaN.
	x := array.New(graph.T(graph.F32, 3, 128))
	for i, v := range []float32{1e-45, float32(math.NaN()), float32(math.Inf(-1))} {
		array.Data[float32](x)[128*i+5], array.Data[float32](x)[128*i+6] = v, float32(i)
	}
	_, _, back := quantised(t, x, graph.F8_E4M3, 128)
	for i, v := range array.Data[float32](back) {
		if math.IsNaN(float64(v)) != (i >= 128) || i < 128 && v != 0 {
			t.Fatalf("element %d of %v becomes %v", i, array.Data[float32](x)[i], v)
		}
	}
}

func TestQuantizeF8PassesCotangents(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x, c := tr.Input("x", graph.F32, 2, 256), tr.Input("c", graph.F32, 2, 256)
		codes, scales := primitives.QuantizeF8(x, graph.F8_E4M3, 128)
		y := primitives.DequantizeF8(codes, scales, graph.F32)
		return []*graph.Value{primitives.ReduceSum(primitives.Mul(y, c), 0, 1)}
	})
	g, err := vjp.Grad(p, "x")
	require.NoError(t, err)
	r := rng(8)
	in := map[string]array.Array{"x": array.New(graph.T(graph.F32, 2, 256)), "c": array.New(graph.T(graph.F32, 2, 256))}
	for _, a := range in {
		for i := range array.Data[float32](a) {
			array.Data[float32](a)[i] = float32(r.NormFloat64())
		}
	}
	out, err := gomoe.Run(context.Background(), g, gomoe.Config{}, in)
	require.NoError(t, err)
	if d, at := array.MaxDiff(out[1], in["c"]); d > 1e-6 {
		t.Errorf("cotangent %d is off by %g", at, d)
	}
}

func TestQuantizeF8Refused(t *testing.T) {
	for want, build := range map[string]func(tr *graph.Tracer) *graph.Value{
		"element type u8, want f8_e4m3 or f8_e5m2": func(tr *graph.Tracer) *graph.Value {
			v, _ := primitives.QuantizeF8(tr.Input("x", graph.F32, 2, 128), graph.U8, 128)
			return v
		},
		"blocks of 128 elements in f32[2,130], want a last dimension that is a multiple of the block": func(tr *graph.Tracer) *graph.Value {
			v, _ := primitives.QuantizeF8(tr.Input("x", graph.F32, 2, 130), graph.F8_E4M3, 128)
			return v
		},
		"3 scales for the 128 columns of f8_e4m3[2,128], want equal blocks": func(tr *graph.Tracer) *graph.Value {
			return primitives.DequantizeF8(tr.Input("x", graph.F8_E4M3, 2, 128), tr.Input("s", graph.F32, 2, 3), graph.F32)
		},
		"scales are f32[2], want one for each block of the rows of f8_e4m3[2,128]": func(tr *graph.Tracer) *graph.Value {
			return primitives.DequantizeF8(tr.Input("x", graph.F8_E4M3, 2, 128), tr.Input("s", graph.F32, 2), graph.F32)
		},
	} {
		_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value { return []*graph.Value{build(tr)} })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Rows that travel in 8 bits are the tokens quantised, to the bit, on every mesh. Their
// cotangents are those of rows that travel as they are, or with CombineF8 those of the
// quantised cotangents of the result.
func TestDispatchF8(t *testing.T) {
	const tokens, choices, experts, hidden = 24, 2, 12, 256
	r := rng(6)
	idx := make([]int32, tokens*choices)
	for i := range idx {
		idx[i] = int32(r.IntN(experts+1)) - 1
	}
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		in := arrays{"idx": ids(idx, tokens, choices), "x": array.New(graph.T(graph.F32, tokens, hidden)),
			"c": array.New(graph.T(graph.F32, tokens, hidden)), "kernel": array.New(graph.T(graph.F32, experts, hidden, hidden))}
		for _, name := range []string{"x", "c", "kernel"} {
			for i := range array.Data[float32](in[name]) {
				array.Data[float32](in[name])[i] = float32(r.NormFloat64())
			}
			in[name] = in[name].As(d)
		}
		layer := func(axis string, f8, back bool) *graph.Program {
			g, err := vjp.Pullback(trace(t, func(tr *graph.Tracer) []*graph.Value {
				l := primitives.Prepare(primitives.PrepareOp{Experts: experts, Axis: axis}, tr.Input("idx", graph.I32, tokens, choices))
				x := tr.Input("x", d, tokens, hidden)
				rows := primitives.Dispatch(l, x)
				if f8 {
					rows = primitives.DispatchF8(l, x, graph.F8_E4M3)
				}
				y := primitives.GroupedMatMul(l, rows, tr.Input("kernel", d, experts, hidden, hidden))
				if back {
					return []*graph.Value{primitives.CombineF8(l, y, graph.F8_E5M2)}
				}
				return []*graph.Value{primitives.Combine(l, y)}
			}), "x")
			require.NoError(t, err)
			// Results and cotangents of the tokens in one program.
			q, err := graph.Trace("q", func(tr *graph.Tracer) []*graph.Value {
				i, x, k, c := tr.Input("idx", graph.I32, tokens, choices), tr.Input("x", d, tokens, hidden), tr.Input("kernel", d, experts, hidden, hidden), tr.Input("c", d, tokens, hidden)
				dx := tr.Replay(g, []*graph.Value{i, x, k, c})
				l := primitives.Prepare(primitives.PrepareOp{Experts: experts, Axis: axis}, i)
				rows := primitives.Dispatch(l, x)
				if f8 {
					rows = primitives.DispatchF8(l, x, graph.F8_E4M3)
				}
				return append(dx, primitives.Combine(l, primitives.GroupedMatMul(l, rows, k)))
			})
			require.NoError(t, err)
			return q
		}
		_, _, x := quantised(t, in["x"], graph.F8_E4M3, 128)
		_, _, c := quantised(t, in["c"], graph.F8_E5M2, 128)
		rounded := arrays{"idx": in["idx"], "x": x, "c": c, "kernel": in["kernel"]}
		plain := spread{}.run(t, layer("", false, false), in)
		want := spread{}.run(t, layer("", false, false), rounded)
		if array.Equal(plain[0], want[0]) || array.Equal(plain[1], want[1]) {
			t.Error("rounded tokens give the results of tokens, so nothing is compared")
		}
		for _, s := range meshes() {
			got := s.run(t, layer(s.axis, true, false), in)
			sameBits(t, fmt.Sprintf("%s on %s: result", d, s), got[1], want[1])
			sameBits(t, fmt.Sprintf("%s on %s: cotangent", d, s), got[0], plain[0])
			got = s.run(t, layer(s.axis, true, true), in)
			sameBits(t, fmt.Sprintf("%s on %s: cotangent in 8 bits", d, s), got[0], want[0])
		}
	}
}

// The plan shows the bytes of rows sent in 8 bits: H + H/32 each instead of 4·H.
func TestDispatchF8Bytes(t *testing.T) {
	const tokens, choices, hidden = 16, 2, 256
	m, err := sharding.ParseMesh("ep=2")
	require.NoError(t, err)
	sent := func(f8 bool) (all, first int64) {
		p := trace(t, func(tr *graph.Tracer) []*graph.Value {
			l := primitives.Prepare(primitives.PrepareOp{Experts: 4}, tr.Input("idx", graph.I32, tokens, choices))
			x := tr.Input("x", graph.F32, tokens, hidden)
			rows := primitives.Dispatch(l, x)
			if f8 {
				rows = primitives.DispatchF8(l, x, graph.F8_E4M3)
			}
			return []*graph.Value{primitives.Combine(l, rows)}
		})
		plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"idx": sharding.Split("ep"), "x": sharding.Split("ep")}})
		require.NoError(t, err)
		for _, in := range plan.Instrs {
			if in.Name() == "all_to_all" {
				if all == 0 {
					first = in.Bytes
				}
				all += in.Bytes
			}
		}
		return all, first
	}
	// The return path is the same. Dispatched rows save 3 bytes of 4, and have scales.
	plain, there := sent(false)
	narrow, _ := sent(true)
	rows := there / (4 * hidden)
	if saved, want := plain-narrow, rows*(4*hidden-hidden-hidden/32); saved < want*95/100 || saved > want || rows < tokens/2 {
		t.Errorf("%d rows in 8 bits save %d bytes of %d, want %d", rows, saved, there, want)
	}
}

// Two layers of a program may send rows in 8 bits, and its text is read back.
func TestDispatchF8Twice(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		l := primitives.Prepare(primitives.PrepareOp{Experts: 4}, tr.Input("idx", graph.I32, 8, 2))
		x := tr.Input("x", graph.F32, 8, 128)
		for _, d := range []graph.DType{graph.F8_E4M3, graph.F8_E5M2} {
			x = primitives.CombineF8(l, primitives.DispatchF8(l, x, d), d)
		}
		return []*graph.Value{primitives.ReduceSum(x, 0, 1)}
	})
	g, err := vjp.Grad(p, "x")
	require.NoError(t, err)
	q, err := gomoe.Parse("q", g.String())
	require.NoError(t, err, g.String())
	in := map[string]array.Array{"idx": ids([]int32{0, 1, 2, 3, 3, 2, 1, 0, -1, 1, 2, 2, 0, 0, 1, 3}, 8, 2), "x": array.New(graph.T(graph.F32, 8, 128))}
	in["x"].Fill(0.3)
	var out [2][]array.Array
	for i, p := range []*graph.Program{g, q} {
		out[i], err = gomoe.Run(context.Background(), p, gomoe.Config{}, in)
		require.NoError(t, err)
	}
	for i := range out[0] {
		sameBits(t, "result", out[1][i], out[0][i])
	}
}
