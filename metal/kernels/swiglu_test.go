package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// gatedLayer is rows times gate and up, and swiglu, as one instruction, of rows that are in order.
func gatedLayer(x, w graph.DType, tokens, deep, cols, align int, transpose bool) string {
	shape := fmt.Sprintf("4,%d,%d", deep, cols)
	if transpose {
		shape = fmt.Sprintf("4,%d,%d", cols, deep)
	}
	return fmt.Sprintf(`program p(idx i32[%d,2], x %s[%d,%d], k %s[%s], v %s[%s]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4 align=%d
	rows = ep_dispatch(x, r) experts=4 align=%d
	x2 = neg(rows)
	g = grouped_matmul(x2, k, r) transpose=%t
	u = grouped_matmul(x2, v, r) transpose=%t
	h = swiglu(g, u)
	a = ep_combine(h, r) experts=4 align=%d
	return a
}`, tokens, x, tokens, deep, w, shape, w, shape, align, align, transpose, transpose, align)
}

// The layer's first half is as the host's, for few rows and many, with gaps between zones and experts
// without rows, in both layouts, of every type, on one rank and on two.
func TestGroupedSwiGLU(t *testing.T) {
	for i, c := range []struct {
		x, w                      graph.DType
		tokens, deep, cols, align int
		transpose                 bool
	}{
		{graph.F32, graph.F32, 6, 37, 70, 1, false},
		{graph.F32, graph.F32, 6, 37, 9, 1, true},
		{graph.F32, graph.F32, 40, 36, 40, 4, false},
		{graph.BF16, graph.BF16, 100, 24, 33, 1, true},
		{graph.BF16, graph.BF16, 4, 64, 65, 1, false},
		{graph.F16, graph.F16, 140, 20, 33, 8, false},
		{graph.F32, graph.Q4_K, 4, 256, 7, 1, true},
		{graph.F32, graph.Q8_0, 70, 64, 33, 1, true},
		{graph.BF16, graph.Q4_K, 4, 256, 7, 1, true},
		{graph.F16, graph.Q8_0, 140, 64, 33, 8, true},
		{graph.BF16, graph.Q5_1, 40, 64, 70, 4, true},
	} {
		e := experts{tokens: c.tokens, experts: 4}
		name := "grouped_swiglu"
		if c.w.IsBlock() {
			name += "_blocks"
		}
		in := source()
		if c.w.IsBlock() { // whose numbers reach millions: a gate far below 0 has a silu below the least normal number
			x := in.random(t, graph.T(c.x, c.tokens, c.deep))
			small := x.Float64s()
			for i := range small {
				small[i] /= 1 << 20
			}
			require.NoError(t, x.SetFloat64s(small))
			in.set["x"] = x
		}
		if c.w.IsBlock() && c.x != graph.F32 { // which would not hold such numbers
			r := rand.New(rand.NewPCG(uint64(i), 3))
			for _, name := range []string{"x", "k", "v"} {
				typ := graph.T(c.w, 4, c.cols, c.deep)
				if name == "x" {
					typ = graph.T(c.x, c.tokens, c.deep)
				}
				in.set[name] = array.New(typ)
				numbers := make([]float64, typ.Len())
				for j := range numbers {
					numbers[j] = r.NormFloat64()
				}
				require.NoError(t, in.set[name].SetFloat64s(numbers))
			}
		}
		in.set["idx"] = e.route(func(i int) int { return i % 2 * (1 + i%3) }) // expert 0 has a choice of every token
		cfg := e.config(t, []string{"", "ep=2"}[i%2])
		if i%2 == 1 {
			cfg.Place["v"] = sharding.Split("ep")
		}
		check(t, gatedLayer(c.x, c.w, c.tokens, c.deep, c.cols, c.align, c.transpose), cfg, in, name)
	}
}

// Each byte of gate and up is read once for a row, the products are not written, and many rows of 16
// bits read an eighth of a byte of threadgroup memory for each multiply-add.
func TestGroupedSwiGLUCounts(t *testing.T) {
	w := counted(t, gatedLayer(graph.BF16, graph.BF16, 1, 256, 64, 1, false), "grouped_swiglu")
	for i := 1; i < 3; i++ {
		require.Equal(t, int64(2*256*64*2), w.Argument(i).Loaded)
	}
	require.Equal(t, int64(2*64*2), w.Sum().Device.Written)
	within(t, "swiglu", w.Sum(), 4*256*64*2)
	all := counted(t, gatedLayer(graph.BF16, graph.BF16, 128, 96, 64, 1, true), "grouped_swiglu").Sum()
	require.Positive(t, all.Products16)
	require.LessOrEqual(t, float64(all.Threadgroup.Loaded), 0.125*float64(all.Products16))
	// So do they with blocks, whose bytes are read once for a row.
	w = counted(t, gatedLayer(graph.BF16, graph.Q4_K, 1, 256, 64, 1, true), "grouped_swiglu_blocks")
	for i := 1; i < 3; i++ {
		bytes := 2 * graph.T(graph.Q4_K, 64, 256).Bytes()
		require.LessOrEqual(t, float64(w.Argument(i).Read), 1.05*float64(bytes))
	}
	require.Equal(t, int64(2*64*2), w.Sum().Device.Written)
	all = counted(t, gatedLayer(graph.BF16, graph.Q8_0, 128, 96, 64, 1, true), "grouped_swiglu_blocks").Sum()
	require.Positive(t, all.Products32)
	require.LessOrEqual(t, float64(all.Threadgroup.Loaded), 0.125*float64(all.Products32))
}
