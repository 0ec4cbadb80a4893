package primitives_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// What MLX quantised stands for the numbers that MLX makes of it, and products are those of
// MLX; testdata/affine/make.py says where they are from.
func TestAffineMatMulIsMLX(t *testing.T) {
	const m, n, k = 3, 6, 128
	for _, c := range []struct {
		bits, group int
		d           graph.DType
	}{{4, 64, graph.F32}, {8, 32, graph.F16}, {4, 128, graph.BF16}, {8, 64, graph.F32}} {
		file, err := os.ReadFile(filepath.Join("testdata", "affine", fmt.Sprintf("%d_%d_%s.bin", c.bits, c.group, c.d)))
		require.NoError(t, err)
		take := func(d graph.DType, shape ...int) array.Array {
			typ := graph.T(d, shape...)
			a := array.New(typ)
			require.Equal(t, len(a.Bytes()), copy(a.Bytes(), file))
			file = file[typ.Bytes():]
			return a
		}
		packed, scales, err := primitives.AffineWeights(graph.T(c.d, n, k), c.bits, c.group)
		require.NoError(t, err)
		w, s, b := take(packed.DType, packed.Shape...), take(c.d, scales.Shape...), take(c.d, scales.Shape...)
		dense, x, y := take(graph.F32, n, k), take(graph.F32, m, k), take(graph.F32, m, n)
		require.Empty(t, file)
		p, err := gomoe.Parse("p", fmt.Sprintf(`program p(x f32[%d,%d], w %s, s %s, b %s, i f32[%[2]d,%[2]d], j f32[%[6]d,%[6]d]) {
 y = affine_matmul(x, w, s, b) transpose=true bits=%[7]d group_size=%[8]d
 z = affine_matmul(i, w, s, b) transpose=true bits=%[7]d group_size=%[8]d
 d = affine_matmul(j, w, s, b) bits=%[7]d group_size=%[8]d
 return y, z, d
}`, m, k, packed, scales, scales, n, c.bits, c.group))
		require.NoError(t, err)
		out := spread{}.run(t, p, arrays{"x": x, "w": w, "s": s, "b": b, "i": unit(k), "j": unit(n)})
		what := fmt.Sprintf("%d bits, groups of %d, %s", c.bits, c.group, c.d)
		for i := range n {
			for l := range k {
				want := array.Data[float32](dense)[i*k+l]
				got, turned := array.Data[float32](out[2])[i*k+l], array.Data[float32](out[1])[l*n+i]
				if math.Float32bits(got) != math.Float32bits(turned) {
					t.Fatalf("%s: element %d,%d is %v, and %v transposed", what, i, l, got, turned)
				}
				if math.Abs(float64(got-want)) > 1e-6 { // MLX may round once
					t.Fatalf("%s: element %d,%d is %v, want %v", what, i, l, got, want)
				}
			}
		}
		if diff, at := array.MaxDiff(out[0], y); diff > 1e-4 { // of sums around 11
			t.Errorf("%s: element %d of a product differs by %g", what, at, diff)
		}
	}
}

// unit returns the matrix of n rows that changes no matrix.
func unit(n int) array.Array {
	a := array.New(graph.T(graph.F32, n, n))
	for i := range n {
		array.Data[float32](a)[i*n+i] = 1
	}
	return a
}

// affineCase has random words [e,n,k] with scales and biases of type d, and what they stand
// for in f32.
func affineCase(r *rand.Rand, d graph.DType, bits, group int, shape ...int) (w, scales, biases, dense array.Array) {
	dense = array.New(graph.T(graph.F32, shape...))
	packed, scaled, err := primitives.AffineWeights(graph.T(d, shape...), bits, group)
	if err != nil {
		panic(err)
	}
	w, scales, biases = array.New(packed), uniform(0.05, 0.1)(r, scaled), uniform(-0.5, 0)(r, scaled)
	for i := range array.Data[uint32](w) {
		array.Data[uint32](w)[i] = r.Uint32()
	}
	s, b := scales.As(graph.F32), biases.As(graph.F32)
	for i := range array.Data[float32](dense) {
		q := array.Data[uint32](w)[i*bits/32] >> (i * bits % 32) & (1<<bits - 1)
		product := float32(float32(q) * array.Data[float32](s)[i/group])
		array.Data[float32](dense)[i] = product + array.Data[float32](b)[i/group]
	}
	return w, scales, biases, dense
}

// Products have the bits of products with the decoded weights, for rows of every type, in
// both orientations, and where tiles begin inside of groups and of words.
func TestAffineMatMul(t *testing.T) {
	r := rng(11)
	for _, bits := range []int{4, 8} {
		for i, s := range [][4]int{{1, 1, 32, 32}, {3, 130, 384, 128}, {7, 5, 320, 64}, {40, 257, 64, 32}} {
			m, n, k, group := s[0], s[1], s[2], s[3]
			d := []graph.DType{graph.F32, graph.F16, graph.BF16}[(i+bits/4)%3]
			rows := []graph.DType{graph.F32, graph.BF16, graph.F16}[i%3]
			w, scales, biases, dense := affineCase(r, d, bits, group, n, k)
			for _, transpose := range []bool{true, false} {
				deep, contract := k, 1
				if !transpose {
					deep, contract = n, 0
				}
				p, err := gomoe.Parse("p", fmt.Sprintf(`program p(x %s[%d,%d], w %s, s %s, b %[5]s, v %[6]s) {
 y = affine_matmul(x, w, s, b) transpose=%[7]v bits=%[8]d group_size=%[9]d
 wide = convert_element_type(x) dtype=f32
 z = dot_general(wide, v) lhs_contract=[1] rhs_contract=[%[10]d]
 u = convert_element_type(z) dtype=%[1]s
 return y, u
}`, rows, m, deep, w.Type, scales.Type, dense.Type, transpose, bits, group, contract))
				require.NoError(t, err)
				out := spread{}.run(t, p, arrays{"x": uniform(-1, 1)(r, graph.T(rows, m, deep)), "w": w, "s": scales, "b": biases, "v": dense})
				sameBits(t, fmt.Sprintf("%d bits %v %s transpose=%v", bits, s, d, transpose), out[0], out[1])
			}
		}
	}
}

// Experts with weights of 4 bits: bits of products with decoded weights on every mesh, and
// gradients of rows that are those of decoded weights.
func TestGroupedAffineMatMul(t *testing.T) {
	const tokens, choices, experts, hidden, width = 24, 2, 12, 192, 72
	r := rng(5)
	w, scales, biases, dense := affineCase(r, graph.BF16, 4, 64, experts, width, hidden)
	idx := make([]int32, tokens*choices)
	for i := range idx {
		idx[i] = int32(r.IntN(experts+1)) - 1
	}
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		loss := func(axis string, affine bool) *graph.Program {
			g, err := vjp.Grad(trace(t, func(tr *graph.Tracer) []*graph.Value {
				layer := primitives.Prepare(primitives.PrepareOp{Experts: experts, Axis: axis}, tr.Input("idx", graph.I32, tokens, choices))
				rows := primitives.Dispatch(layer, tr.Input("x", d, tokens, hidden))
				var y *graph.Value
				if affine {
					y = primitives.GroupedAffineMatMul(layer, rows, tr.Input("kernel", graph.U32, w.Type.Shape...),
						tr.Input("kscales", graph.BF16, scales.Type.Shape...), tr.Input("kbiases", graph.BF16, scales.Type.Shape...), 4, 64)
				} else {
					y = primitives.GroupedMatMulTransposed(layer, primitives.ConvertElementType(rows, graph.F32), tr.Input("kdense", graph.F32, dense.Type.Shape...))
					y = primitives.ConvertElementType(y, d)
				}
				out := primitives.Combine(layer, y)
				wide := primitives.ConvertElementType(out, graph.F32)
				return []*graph.Value{primitives.ReduceSum(primitives.Mul(wide, wide), 0, 1), out}
			}), "x")
			require.NoError(t, err)
			return g
		}
		in := arrays{"idx": ids(idx, tokens, choices), "x": uniform(-1, 1)(r, graph.T(d, tokens, hidden)), "kernel": w, "kscales": scales, "kbiases": biases, "kdense": dense}
		want := spread{}.run(t, loss("", false), in)
		for _, s := range meshes() {
			got := s.run(t, loss(s.axis, true), in)
			sameBits(t, fmt.Sprintf("%s on %s: outputs", d, s), got[1], want[1])
			sameBits(t, fmt.Sprintf("%s on %s: gradient of x", d, s), got[2], want[2])
		}
	}
}

func TestAffineMatMulRefused(t *testing.T) {
	for args, want := range map[string]string{
		"x f32[2,64], w u32[4,8], s f32[4,2], b f32[4,2] bits=3 group_size=32":     "bits is 3, want 4 or 8",
		"x f32[2,64], w u32[4,8], s f32[4,2], b f32[4,2] bits=4 group_size=16":     "group_size is 16, want 32, 64 or 128",
		"x f32[2,64], w u32[4,8], s f32[4,2], b f32[4,2] bits=4":                   "group_size is 0, want 32, 64 or 128",
		"x f32[2,64], w u32[4,8], s f32[4,1], b f32[4,1] bits=4 group_size=32":     "scales are f32[4,1], want f32[4,2]: one for each 32 weights of a row",
		"x f32[2,64], w u32[4,8], s f64[4,2], b f64[4,2] bits=4 group_size=32":     "scales are f64[4,2], want f32[4,2]",
		"x f32[2,64], w u32[4,8], s f32[4,2], b bf16[4,2] bits=4 group_size=32":    "biases are bf16[4,2], want f32[4,2] as the scales",
		"x f32[2,64], w i32[4,8], s f32[4,2], b f32[4,2] bits=4 group_size=32":     "weights are i32[4,8], want u32[out, words], of 8 numbers of 4 bits each",
		"x f32[2,64], w u32[4,8], s f32[4,2], b f32[4,2] bits=8 group_size=32":     "scales are f32[4,2], want f32[4,1]",
		"x f32[2,64], w u32[4,4], s f32[4,2], b f32[4,2] bits=4 group_size=64":     "weights are f32[4,32], want rows of a multiple of 64, the group size",
		"x f32[2,60], w u32[4,8], s f32[4,2], b f32[4,2] bits=4 group_size=32":     "rows have 60 columns, want 64 as the weights u32[4,8] of 4 bits have",
		"x f8_e4m3[2,64], w u32[4,8], s f32[4,2], b f32[4,2] bits=4 group_size=32": "argument 0 is f8_e4m3[2,64], which is for storage and transport",
	} {
		inputs, params, _ := strings.Cut(args, " bits")
		_, err := gomoe.Parse("p", "program p("+inputs+") {\n y = affine_matmul(x, w, s, b) transpose=true bits"+params+"\n return y\n}")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}
