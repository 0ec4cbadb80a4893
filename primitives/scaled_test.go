package primitives_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// scaledCase has weights [e,n,k] in 8 bits with their scales, and the decoded weights.
type scaledCase struct {
	e, n, k   int
	w, scales array.Array
	dense     []float64 // exact
}

func newScaledCase(r *rand.Rand, d graph.DType, e, n, k int) scaledCase {
	c := scaledCase{e: e, n: n, k: k, w: array.New(graph.T(d, e, n, k))}
	c.scales = array.New(primitives.ScaledBlocks(c.w.Type))
	for i := range array.Data[float32](c.scales) {
		array.Data[float32](c.scales)[i] = float32(math.Exp(r.NormFloat64()))
	}
	for i := range c.w.Bytes() {
		code := byte(r.IntN(256))
		if code&0x7f >= 0x70 { // large numbers, infinities and NaNs
			code = 0x35
		}
		c.w.Bytes()[i] = code
	}
	nb, kb := c.scales.Type.Shape[1], c.scales.Type.Shape[2]
	for i, v := range c.w.Float64s() {
		row, col := i/k%n, i%k
		c.dense = append(c.dense, v*float64(array.Data[float32](c.scales)[(i/(n*k)*nb+row/128)*kb+col/128]))
	}
	return c
}

// A product with scaled weights has the bits of a product with the decoded weights, and is
// as near to a sum in f64 as it says, in both orientations.
func TestScaledMatMul(t *testing.T) {
	r := rng(3)
	for _, d := range []graph.DType{graph.F8_E4M3, graph.F8_E5M2} {
		for _, s := range [][3]int{{1, 1, 1}, {3, 127, 129}, {7, 130, 300}, {40, 257, 128}, {5, 64, 600}} {
			m, n, k := s[0], s[1], s[2]
			c := newScaledCase(r, d, 1, n, k)
			for _, transpose := range []bool{true, false} {
				deep, wide := k, n
				if !transpose {
					deep, wide = n, k
				}
				p, err := gomoe.Parse("p", fmt.Sprintf(`program p(x f32[%d,%d], w %s[%d,%d], s f32[%d,%d], v f32[%[4]d,%[5]d]) {
 y = scaled_matmul(x, w, s) transpose=%[8]v
 z = dot_general(x, v) lhs_contract=[1] rhs_contract=[%[9]d]
 return y, z
}`, m, deep, d, n, k, (n+127)/128, (k+127)/128, transpose, map[bool]int{true: 1, false: 0}[transpose]))
				require.NoError(t, err)
				x := array.New(graph.T(graph.F32, m, deep))
				for i := range array.Data[float32](x) {
					array.Data[float32](x)[i] = float32(r.NormFloat64())
				}
				v := array.New(graph.T(graph.F32, n, k))
				require.NoError(t, v.SetFloat64s(c.dense))
				out := spread{}.run(t, p, arrays{"x": x, "w": c.w.Reshape(n, k), "s": c.scales.Reshape(c.scales.Type.Shape[1:]...), "v": v})
				sameBits(t, fmt.Sprintf("%s %v transpose=%v", d, s, transpose), out[0], out[1])
				for i := range m {
					for j := range wide {
						want, size := 0.0, 0.0
						for l := range deep {
							at := j*k + l
							if !transpose {
								at = l*k + j
							}
							term := float64(array.Data[float32](x)[i*deep+l]) * c.dense[at]
							want, size = want+term, size+math.Abs(term)
						}
						got := float64(array.Data[float32](out[0])[i*wide+j])
						if off := math.Abs(got - want); off > float64(deep+1)*0x1p-24*size {
							t.Fatalf("%s %v transpose=%v: element %d,%d is %v, want %v: off by %g", d, s, transpose, i, j, got, want, off)
						}
					}
				}
			}
		}
	}
}

// Experts with scaled weights: bits of products with decoded weights, on every mesh, in
// f32 and with bf16 rows, and gradients that are those of decoded weights.
func TestGroupedScaledMatMul(t *testing.T) {
	const tokens, choices, experts, hidden, width = 24, 2, 12, 200, 136
	r := rng(5)
	c := newScaledCase(r, graph.F8_E4M3, experts, width, hidden)
	decoded := array.New(graph.T(graph.F32, experts, width, hidden))
	require.NoError(t, decoded.SetFloat64s(c.dense))
	idx := make([]int32, tokens*choices)
	for i := range idx {
		idx[i] = int32(r.IntN(experts+1)) - 1
	}
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		x := array.New(graph.T(graph.F32, tokens, hidden))
		for i := range array.Data[float32](x) {
			array.Data[float32](x)[i] = float32(r.NormFloat64())
		}
		x = x.As(d)
		loss := func(axis string, scaled bool) *graph.Program {
			g, err := vjp.Grad(trace(t, func(tr *graph.Tracer) []*graph.Value {
				layer := primitives.Prepare(primitives.PrepareOp{Experts: experts, Axis: axis}, tr.Input("idx", graph.I32, tokens, choices))
				rows := primitives.Dispatch(layer, tr.Input("x", d, tokens, hidden))
				var y *graph.Value
				if scaled {
					w := tr.Input("kernel", graph.F8_E4M3, experts, width, hidden)
					y = primitives.GroupedScaledMatMul(layer, rows, w, tr.Input("kscales", graph.F32, c.scales.Type.Shape...))
				} else {
					w := tr.Input("kdense", graph.F32, experts, width, hidden)
					y = primitives.GroupedMatMulTransposed(layer, primitives.ConvertElementType(rows, graph.F32), w)
					y = primitives.ConvertElementType(y, d)
				}
				out := primitives.Combine(layer, y)
				wide := primitives.ConvertElementType(out, graph.F32)
				return []*graph.Value{primitives.ReduceSum(primitives.Mul(wide, wide), 0, 1), out}
			}), "x")
			require.NoError(t, err)
			return g
		}
		in := arrays{"idx": ids(idx, tokens, choices), "x": x, "kernel": c.w, "kscales": c.scales, "kdense": decoded}
		want := spread{}.run(t, loss("", false), in)
		for _, s := range meshes() {
			got := s.run(t, loss(s.axis, true), in)
			sameBits(t, fmt.Sprintf("%s on %s: outputs", d, s), got[1], want[1])
			sameBits(t, fmt.Sprintf("%s on %s: gradient of x", d, s), got[2], want[2])
		}
	}
}

// Weights that are made of other values in the program have gradients: those of codes
// times scales, which pass the codes straight through.
func TestScaledMatMulGradients(t *testing.T) {
	p, err := gomoe.Parse("p", `program p(x f32[3,130], v f32[2,130], s f32[1,2]) {
 w = convert_element_type(v) dtype=f8_e4m3
 y = scaled_matmul(x, w, s) transpose=true
 z = square(y)
 l = reduce_sum(z) axes=[0,1]
 return l
}`)
	require.NoError(t, err)
	q, err := gomoe.Parse("q", `program q(x f32[3,130], v f32[2,130], s f32[1,2]) {
 e = slice(s) start_indices=[0,0] limit_indices=[1,1]
 f = slice(s) start_indices=[0,1] limit_indices=[1,2]
 b = broadcast_in_dim(e) shape=[2,128] dims=[0,1]
 c = broadcast_in_dim(f) shape=[2,2] dims=[0,1]
 d = concatenate(b, c) dimension=1
 w = mul(v, d)
 y = dot_general(x, w) lhs_contract=[1] rhs_contract=[1]
 z = square(y)
 l = reduce_sum(z) axes=[0,1]
 return l
}`)
	require.NoError(t, err)
	r := rng(9)
	in := map[string]array.Array{"x": array.New(graph.T(graph.F32, 3, 130)), "v": array.New(graph.T(graph.F32, 2, 130)), "s": array.New(graph.T(graph.F32, 1, 2))}
	for name, a := range in {
		for i := range array.Data[float32](a) {
			array.Data[float32](a)[i] = float32(r.IntN(7)-3) / 4
			if name == "s" {
				array.Data[float32](a)[i] = 0.75 + float32(i)
			}
		}
	}
	var results [2][]array.Array
	for i, p := range []*graph.Program{p, q} {
		g, err := vjp.Grad(p)
		require.NoError(t, err)
		results[i], err = gomoe.Run(context.Background(), g, gomoe.Config{}, in)
		require.NoError(t, err)
	}
	for i := range results[0] {
		if d, at := array.MaxDiff(results[0][i], results[1][i]); d > 1e-2 || results[0][i].Type.Len() == 0 {
			t.Errorf("result %d differs by %g at %d\n%v\n%v", i, d, at, results[0][i], results[1][i])
		}
	}
}

func TestScaledMatMulRefused(t *testing.T) {
	for args, want := range map[string]string{
		"x f32[2,130], w f8_e4m3[4,130], s f32[1,1]": "scales are f32[1,1], want f32[1,2]: one for each block of 128×128 weights",
		"x f32[2,130], w f8_e4m3[4,130], s f64[1,2]": "scales are f64[1,2], want f32[1,2]",
		"x f32[2,130], w f8_e4m3[4,130], s i32[1,2]": "scales are i32[1,2], want f32[1,2]",
		"x f32[2,130], w bf16[4,130], s f32[1,2]":    "weights are bf16[4,130], want f8_e4m3[out, in] or f8_e5m2[out, in]",
		"x f32[2,4], w f8_e4m3[4,130], s f32[1,2]":   "rows have 4 columns, want 130 as the weights f8_e4m3[4,130] have",
		"x f8_e4m3[2,4], w f8_e4m3[4,4], s f32[1,1]": "element type f8_e4m3, want f64, f32, bf16 or f16; convert with convert_element_type",
		"x f32[], w f8_e4m3[4,4], s f32[1,1]":        "has 0 dimensions, want at least 1",
	} {
		_, err := gomoe.Parse("p", "program p("+args+") {\n y = scaled_matmul(x, w, s) transpose=true\n return y\n}")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}
