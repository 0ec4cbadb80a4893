package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal/counts"
	"github.com/gomoe/gomoe/metal/metaltest"
	"github.com/gomoe/gomoe/quant"
)

// counted runs a program on random inputs, with indices below 4, and returns what its instruction
// of that name does on rank 0.
func counted(t *testing.T, text, name string) metaltest.Work {
	t.Helper()
	return countedWith(t, text, name, metaltest.Count)
}

func countedWith(t *testing.T, text, name string, count func(testing.TB, *graph.Program, gomoe.Config, map[string]array.Array, string) []metaltest.Work) metaltest.Work {
	t.Helper()
	p, err := gomoe.Parse("counted", text)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 9))
	in := map[string]array.Array{}
	for _, v := range p.In {
		x := make([]float64, v.Type.Len())
		for i := range x {
			if x[i] = 2*r.Float64() - 1; v.Type.DType == graph.I32 {
				x[i] = float64(i % 4)
			}
		}
		a := array.New(v.Type)
		require.NoError(t, a.SetFloat64s(x))
		in[v.Name] = a
	}
	all := count(t, p, gomoe.Config{}, in, name)
	require.NotEmpty(t, all)
	return all[0]
}

// within asserts that what reading weights once takes at 85% of a GPU's bandwidth hides what its
// threadgroup memory has to do.
func within(t *testing.T, what string, c counts.Counts, weights int64) {
	t.Helper()
	for _, g := range counts.GPUs() {
		require.LessOrEqual(t, float64(c.Threadgroup.Loaded)/g.Threadgroup, float64(weights)/(0.85*g.Memory), "%s on %s", what, g.Name)
	}
}

// A product with one row reads each byte of the matrix once, dense and of experts, whatever the
// matrix is made of. No two threads load a byte of plain numbers; of blocks several load scales.
func TestDecodeReadsOnce(t *testing.T) {
	const deep, cols = 1024, 64
	for i, d := range append([]graph.DType{graph.F32, graph.F16, graph.BF16}, quant.Types()...) {
		x, most := d, 1.05
		if d.IsBlock() {
			x, most = graph.F32, 2.3
		}
		for j, c := range []struct{ name, text string }{
			{"dot_general", fmt.Sprintf("program p(x %s[1,%d], w %s[%d,%d]) {\ny = dot_general(x, w) lhs_contract=[1] rhs_contract=[1]\nreturn y\n}", x, deep, d, cols, deep)},
			{"dot_general", fmt.Sprintf("program p(x %s[1,%d], w %s[%d,%d]) {\ny = dot_general(x, w) lhs_contract=[1] rhs_contract=[0]\nreturn y\n}", x, deep, d, deep, cols)},
			{"grouped_matmul", fmt.Sprintf("program p(i i32[1,2], x %s[1,%d], w %s[4,%d,%d]) {\nr, drop, n, pad, demand = ep_prepare(i) experts=4\nrows = ep_dispatch(x, r) experts=4\nv = neg(rows)\ny = grouped_matmul(v, w, r) transpose=true\nz = ep_combine(y, r) experts=4\nreturn z\n}", x, deep, d, cols, deep)},
			{"grouped_matmul", fmt.Sprintf("program p(i i32[1,2], x %s[1,%d], w %s[4,%d,%d]) {\nr, drop, n, pad, demand = ep_prepare(i) experts=4\nrows = ep_dispatch(x, r) experts=4\nv = neg(rows)\ny = grouped_matmul(v, w, r)\nz = ep_combine(y, r) experts=4\nreturn z\n}", x, deep, d, deep, cols)},
		} {
			if !sampled(i, j) {
				continue
			}
			name, matrices := c.name, int64(1)
			if d.IsBlock() {
				if name += "_blocks"; !strings.Contains(c.text, "transpose=true") && !strings.Contains(c.text, "rhs_contract=[1]") {
					continue // blocks lie along the sum
				}
			}
			if c.name == "grouped_matmul" {
				matrices = 2
			}
			w := counted(t, c.text, name)
			bytes := matrices * graph.T(d, cols, deep).Bytes()
			got := w.Argument(1)
			what := fmt.Sprintf("%s of %s (%s)", name, d, w.Program.Launches[0].Function)
			t.Logf("%s, %d bytes: loaded %.2f, read %.2f; %.1f operations a weight", what, bytes, float64(got.Loaded)/float64(bytes), float64(got.Read)/float64(bytes), float64(w.Sum().Operations)/float64(matrices*cols*deep))
			require.LessOrEqual(t, float64(got.Read), 1.05*float64(bytes), what)
			require.LessOrEqual(t, float64(got.Loaded), most*float64(bytes), what)
			require.GreaterOrEqual(t, got.Once, bytes, what)
			within(t, what, w.Sum(), bytes)
		}
	}
}

// A product with one row and 8-bit floats with scales, or MLX's matrices of 4 and 8 bits, reads each byte of
// codes, scales and biases once, dense and of experts, in both directions; threads load each code once, and
// along the sum a scale and a bias once for 32 elements, and those of 8-bit floats once for four columns.
func TestDecodeReadsCodesOnce(t *testing.T) {
	const out, in, route = 256, 1024, "r, drop, n, pad, demand = ep_prepare(i) experts=4\nrows = ep_dispatch(x, r) experts=4\n"
	const home = "\ny = ep_combine(z, r) experts=4"
	for _, c := range []struct {
		name, types, args string
		most              float64 // bytes of codes, scales and biases loaded for each there is, along the sum
	}{
		{"scaled_matmul", "w f8_e4m3[%s256,1024], s f32[%s2,8]", "", 1.04},
		{"affine_matmul", "w u32[%s256,128], s bf16[%s256,32], b bf16[%s256,32]", " bits=4 group_size=32", 1},
		{"affine_matmul", "w u32[%s256,128], s bf16[%s256,16], b bf16[%s256,16]", " bits=4 group_size=64", 1.12},
		{"affine_matmul", "w u32[%s256,256], s bf16[%s256,8], b bf16[%s256,8]", " bits=8 group_size=128", 1.1},
	} {
		biases := ", s"
		if c.name == "affine_matmul" {
			biases = ", s, b"
		}
		for _, transpose := range []bool{true, false} {
			deep := in
			if !transpose {
				deep = out
			}
			for _, grouped := range []bool{false, true} {
				name, stack, matrices := c.name, "", int64(1)
				text := fmt.Sprintf("program p(x bf16[1,%d], %s) {\ny = %s(x, w%s) transpose=%v%s\nreturn y\n}", deep, strings.ReplaceAll(c.types, "%s", stack), c.name, biases, transpose, c.args)
				if grouped {
					name, stack, matrices = "grouped_"+c.name, "4,", 2
					text = fmt.Sprintf("program p(i i32[1,2], x bf16[1,%d], %s) {\n"+route+"z = %s(rows, w, r%s) transpose=%v%s"+home+"\nreturn y\n}", deep, strings.ReplaceAll(c.types, "%s", stack), name, biases, transpose, c.args)
				}
				w := counted(t, text, name)
				require.Contains(t, w.Program.Launches[0].Function, "_matvec_")
				p, err := gomoe.Parse("types", text)
				require.NoError(t, err)
				var bytes int64
				var all counts.Traffic
				matrix := p.In[len(p.In)-1-strings.Count(biases, ","):] // and scales, and biases
				for i, v := range matrix {
					all.Add(w.Argument(1 + i))
					bytes += v.Type.Bytes()
				}
				codes := matrix[0].Type.Bytes()
				if grouped { // with two of four experts
					bytes, codes = bytes/2, codes/2
				}
				what := fmt.Sprintf("%s%s (%s)", name, c.args, w.Program.Launches[0].Function)
				t.Logf("%s, %d bytes: loaded %.3f, read %.3f; %.1f operations a weight", what, bytes, float64(all.Loaded)/float64(bytes), float64(all.Read)/float64(bytes), float64(w.Sum().Operations)/float64(matrices*out*in))
				require.LessOrEqual(t, float64(all.Read), 1.05*float64(bytes), what)
				require.Equal(t, bytes, all.Once, what)
				require.Equal(t, codes, w.Argument(1).Loaded, what)
				if transpose {
					require.LessOrEqual(t, float64(all.Loaded), c.most*float64(bytes), what)
				}
				within(t, what, w.Sum(), bytes)
			}
		}
	}
}

// A product with many rows of 16 bits reads an eighth of a byte of threadgroup memory for each
// multiply-add, with matrices of the same numbers and with what is decoded to f32.
func TestProductThreadgroupMemory(t *testing.T) {
	const route = "r, drop, n, pad, demand = ep_prepare(i) experts=4\nrows = ep_dispatch(x, r) experts=4\nv = neg(rows)\n"
	for _, d := range []graph.DType{graph.F16, graph.BF16} {
		for _, c := range []struct{ name, in, body string }{
			{"dot_general", "x %[1]s[128,96], w %[1]s[96,128]", "y = dot_general(x, w) lhs_contract=[1] rhs_contract=[0]"},
			{"dot_general", "x %[1]s[128,96], w %[1]s[128,96]", "y = dot_general(x, w) lhs_contract=[1] rhs_contract=[1]"},
			{"dot_general", "x %[1]s[128,96], w f32[96,128]", "y = dot_general(x, w) lhs_contract=[1] rhs_contract=[0] dtype=f32"},
			{"dot_general", "x f32[128,96], w %[1]s[96,128]", "y = dot_general(x, w) lhs_contract=[1] rhs_contract=[0] dtype=f32"},
			{"grouped_matmul", "i i32[128,2], x %[1]s[128,96], w %[1]s[4,96,64]", route + "z = grouped_matmul(v, w, r)\ny = ep_combine(z, r) experts=4"},
			{"dot_general_blocks", "x %[1]s[128,256], w q4_k[128,256]", "y = dot_general(x, w) lhs_contract=[1] rhs_contract=[1]"},
			{"grouped_matmul_blocks", "i i32[128,2], x %[1]s[128,96], w q8_0[4,128,96]", route + "z = grouped_matmul(v, w, r) transpose=true\ny = ep_combine(z, r) experts=4"},
			{"grouped_swiglu", "i i32[128,2], x %[1]s[128,96], w %[1]s[4,96,64], u %[1]s[4,96,64]",
				route + "a = grouped_matmul(v, w, r)\nb = grouped_matmul(v, u, r)\nz = swiglu(a, b)\ny = ep_combine(z, r) experts=4"},
			{"scaled_matmul", "x %[1]s[128,128], w f8_e4m3[128,128], s f32[1,1]", "y = scaled_matmul(x, w, s) transpose=true"},
			{"affine_matmul", "x %[1]s[128,128], w u32[128,16], s %[1]s[128,4], b %[1]s[128,4]", "y = affine_matmul(x, w, s, b) transpose=true bits=4 group_size=32"},
		} {
			w := counted(t, fmt.Sprintf("program p("+c.in+") {\n", d)+c.body+"\nreturn y\n}", c.name)
			all, function := w.Sum(), w.Program.Launches[len(w.Program.Launches)-1].Function
			require.Positive(t, all.Products())
			require.Equal(t, strings.HasSuffix(function, "_f32"), all.Products16 == 0, function)
			require.LessOrEqual(t, float64(all.Threadgroup.Loaded), 0.125*float64(all.Products()), "%s of %s, %s", c.name, d, function)
		}
	}
}

// Tensor operations multiply what simdgroup matrices do, and load each element of the blocks of a tile once
// for them, at the least: a sixteenth of a byte for each multiply-add, and the sums once, to write them.
func TestTensorCounts(t *testing.T) {
	for _, across := range []int{0, 1} {
		w, contract := "w bf16[128,96]", 1
		if across == 1 {
			w, contract = "w bf16[96,128]", 0
		}
		text := fmt.Sprintf("program p(x bf16[128,96], %s) {\ny = dot_general(x, w) lhs_contract=[1] rhs_contract=[%d]\nreturn y\n}", w, contract)
		got := countedWith(t, text, "dot_general", metaltest.CountTensors)
		c, products := got.Sum(), int64(128*128*96)
		require.Equal(t, map[int]string{0: "dot_general_tensor_bf16_nt", 1: "dot_general_tensor_bf16_nn"}[across], got.Program.Launches[0].Function)
		require.Equal(t, []int64{products, 0, 0}, []int64{c.ProductsTensor, c.Products16, c.Products32})
		require.Equal(t, products/16+4*128*128, c.Threadgroup.Loaded)
		plain := counted(t, text, "dot_general").Sum()
		require.Equal(t, products, plain.Products16)
		require.LessOrEqual(t, c.Operations, 2*plain.Operations, "the stand-in's own work is not counted")
		t.Logf("operations %d, of simdgroup matrices %d", c.Operations, plain.Operations)
	}
}

// Rows of f32 take a quarter of a byte with matrices of f32, and three sixteenths with what is decoded.
func TestWideProductThreadgroupMemory(t *testing.T) {
	const route = "r, drop, n, pad, demand = ep_prepare(i) experts=4\nrows = ep_dispatch(x, r) experts=4\nv = neg(rows)\n"
	for _, c := range []struct {
		name, in, body string
		most           float64
	}{
		{"dot_general", "x f32[128,96], w f32[96,128]", "y = dot_general(x, w) lhs_contract=[1] rhs_contract=[0]", 0.25},
		{"dot_general_blocks", "x f32[128,256], w q4_k[128,256]", "y = dot_general(x, w) lhs_contract=[1] rhs_contract=[1]", 0.1875},
		{"grouped_matmul_blocks", "i i32[128,2], x f32[128,96], w q8_0[4,128,96]", route + "z = grouped_matmul(v, w, r) transpose=true\ny = ep_combine(z, r) experts=4", 0.1875},
		{"grouped_swiglu_blocks", "i i32[128,2], x f32[128,96], w q8_0[4,64,96], u q8_0[4,64,96]",
			route + "a = grouped_matmul(v, w, r) transpose=true\nb = grouped_matmul(v, u, r) transpose=true\nz = swiglu(a, b)\ny = ep_combine(z, r) experts=4", 0.1875},
		{"scaled_matmul", "x f32[128,128], w f8_e4m3[128,128], s f32[1,1]", "y = scaled_matmul(x, w, s) transpose=true", 0.1875},
		{"affine_matmul", "x f32[128,128], w u32[128,16], s f32[128,4], b f32[128,4]", "y = affine_matmul(x, w, s, b) transpose=true bits=4 group_size=32", 0.1875},
	} {
		all := counted(t, "program p("+c.in+") {\n"+c.body+"\nreturn y\n}", c.name).Sum()
		require.Positive(t, all.Products32)
		require.LessOrEqual(t, float64(all.Threadgroup.Loaded), c.most*float64(all.Products32), "%s(%s)", c.name, c.in)
	}
}

// Attention with heads of 128 numbers of 16 bits reads at most a quarter of a byte for each
// multiply-add, and so does its gradient.
func TestAttentionThreadgroupMemory(t *testing.T) {
	for _, d := range []graph.DType{graph.F16, graph.BF16} {
		head := fmt.Sprintf("%s[1,64,1,128]", d)
		for name, text := range map[string]string{
			"attention":      fmt.Sprintf("program p(q %[1]s, k %[1]s, v %[1]s) {\nout, lse = attention(q, k, v)\nreturn out, lse\n}", head),
			"attention_grad": fmt.Sprintf("program p(q %[1]s, k %[1]s, v %[1]s, out %[1]s, lse f32[1,1,64], dout %[1]s, dlse f32[1,1,64]) {\ndq, dk, dv = attention_grad(q, k, v, out, lse, dout, dlse)\nreturn dq, dk, dv\n}", head),
		} {
			all := counted(t, text, name).Sum()
			require.Positive(t, all.Products())
			t.Logf("%s of %s: %.3f bytes", name, d, float64(all.Threadgroup.Loaded)/float64(all.Products()))
			require.LessOrEqual(t, float64(all.Threadgroup.Loaded), 0.25*float64(all.Products()), "%s of %s", name, d)
		}
	}
}

// Attention of one query reads each key and value once for the heads that share them.
func TestDecodeAttentionReadsOnce(t *testing.T) {
	w := counted(t, "program p(q bf16[1,1,8,64], k bf16[1,600,1,64], v bf16[1,600,1,64]) {\nout, lse = attention(q, k, v)\nreturn out, lse\n}", "attention")
	require.Equal(t, 3, w.Program.Launches[0].Groups[0])
	for i := 1; i < 3; i++ {
		require.Equal(t, int64(600*64*2), w.Argument(i).Loaded)
	}
	within(t, "attention", w.Sum(), 2*600*64*2)
}
