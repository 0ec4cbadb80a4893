package kernels_test

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/quant"
)

// blockLayer is a layer of linear experts whose weights are in blocks, with one choice for
// each token, and a product of all tokens with one matrix.
type blockLayer struct {
	tokens, experts, hidden, width int
	weighted                       bool // whether rows have weights
	align                          int  // of experts' zones; 0 is 1
}

// text is the layer's program with weights of type d.
func (l blockLayer) text(d graph.DType) string {
	weigh, result, align := "", "y", ""
	rows := l.tokens
	if l.align > 1 {
		align = fmt.Sprintf(" align=%d", l.align)
		rows += l.experts * (l.align - 1)
	}
	if l.weighted {
		weigh = fmt.Sprintf("\tspread = broadcast_in_dim(rg) shape=[%d,%d] dims=[0]\n\tz = mul(y, spread)\n", rows, l.width)
		result = "z"
	}
	return fmt.Sprintf(`program p(idx i32[%[2]d,1], x f32[%[2]d,%[4]d], g f32[%[2]d,1], k %[1]s[%[3]d,%[5]d,%[4]d], v %[1]s[%[5]d,%[4]d]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=%[3]d%[8]s
	rows, rg = ep_dispatch(x, g, r) experts=%[3]d%[8]s
	y = grouped_matmul(rows, k, r) transpose=true
%[6]s	out = ep_combine(%[7]s, r) experts=%[3]d%[8]s
	all = dot_general(x, v) lhs_contract=[1] rhs_contract=[1]
	return out, all
}`, d, l.tokens, l.experts, l.hidden, l.width, weigh, result, align)
}

// in are the layer's inputs with weights in blocks of type d, and wide with what these
// stand for, in f32.
func (l blockLayer) in(t *testing.T, d graph.DType, route func(i int) int) (in, wide *inputs) {
	t.Helper()
	in, wide = source(), source()
	idx := array.New(graph.T(graph.I32, l.tokens, 1))
	for i := range array.Data[int32](idx) {
		array.Data[int32](idx)[i] = int32(route(i))
	}
	in.set["idx"], wide.set["idx"] = idx, idx
	r := source()
	for name, shape := range map[string][]int{"x": {l.tokens, l.hidden}, "g": {l.tokens, 1}} {
		a := r.random(t, graph.T(graph.F32, shape...))
		in.set[name], wide.set[name] = a, a
	}
	for name, shape := range map[string][]int{"k": {l.experts, l.width, l.hidden}, "v": {l.width, l.hidden}} {
		x := r.random(t, graph.T(graph.F32, shape...))
		w := array.New(graph.T(d, shape...))
		require.NoError(t, quant.Quantize(w.Bytes(), d, array.Data[float32](x)))
		require.NoError(t, quant.Dequantize(array.Data[float32](x), d, w.Bytes()))
		in.set[name], wide.set[name] = w, x
	}
	return in, wide
}

func (l blockLayer) arrays(t *testing.T, d graph.DType, in *inputs) map[string]array.Array {
	t.Helper()
	p, err := gomoe.Parse("t", l.text(d))
	require.NoError(t, err)
	return in.of(t, p)
}

// Products with weights in blocks are near those of the host, which rounds rows, for few
// rows and many, experts with all of them and with none, on one rank and on two.
func TestBlocks(t *testing.T) {
	for i, d := range quant.Types() {
		for j, l := range []blockLayer{
			{tokens: 6, experts: 3, hidden: 256, width: 5},
			{tokens: 40, experts: 4, hidden: 512, width: 70, weighted: true},
			{tokens: 16, experts: 4, hidden: 256, width: 17, weighted: true},
		} {
			if (i+j)%3 == 2 || !sampled(i, j) {
				continue // each type has at most two of the three
			}
			for k, route := range []func(int) int{func(i int) int { return i % 2 * (l.experts - 1) }, func(int) int { return 1 }} {
				if (i+j+k)%2 == 0 && j == 1 {
					continue
				}
				mesh := []string{"", "ep=2"}[(i+j+k)%2]
				if l.experts%2 != 0 {
					mesh = ""
				}
				cfg := experts{}.config(t, mesh)
				delete(cfg.Place, "k")
				if mesh != "" {
					cfg.Place["k"], cfg.Place["g"] = cfg.Place["x"], cfg.Place["x"]
				}
				name := "grouped_matmul_blocks"
				if l.weighted {
					name += "_weighted"
				}
				in, _ := l.in(t, d, route)
				check(t, l.text(d), cfg, in, name, "dot_general_blocks")
			}
		}
	}
}

// Products with weights in blocks have the bits of products with what these stand for:
// every element is decoded exactly. Those of few rows are summed in another order.
func TestBlocksBits(t *testing.T) {
	for i, d := range quant.Types() {
		if !sampled(i, 0) {
			continue
		}
		l := blockLayer{tokens: 40, experts: 2, hidden: 512, width: 70}
		route := func(i int) int { return i % 2 }
		in, wide := l.in(t, d, route)
		for name, plain := range map[string]string{"grouped_matmul": "grouped_matmul", "dot_general": "dot_general"} {
			got, _ := onDevice(t, l.text(d), name+"_blocks", l.arrays(t, d, in))
			want, _ := onDevice(t, l.text(graph.F32), plain, l.arrays(t, graph.F32, wide))
			if !bytes.Equal(got, want) {
				t.Errorf("%s: %s of blocks has other bits than of their elements", d, name)
			}
		}
		l.tokens = 7
		in, wide = l.in(t, d, route)
		got, f := onDevice(t, l.text(d), "grouped_matmul_blocks", l.arrays(t, d, in))
		require.Equal(t, "grouped_matvec_along", f)
		want, _ := onDevice(t, l.text(graph.F32), "grouped_matmul", l.arrays(t, graph.F32, wide))
		x, y := array.Over(graph.T(graph.F32, len(got)/4), got), array.Over(graph.T(graph.F32, len(want)/4), want)
		for i, v := range array.Data[float32](x) {
			if w := array.Data[float32](y)[i]; math.Abs(float64(v-w)) > 1e-3 { // of sums around 20
				t.Fatalf("%s: element %d of few rows is %v, want %v", d, i, v, w)
			}
		}
	}
}

// Rows of 16 bits stay such beside weights in blocks, whose elements stay f32: results are those of the
// same numbers in f32, rounded, in tiles for many rows and for few.
func TestBlocksNarrowBits(t *testing.T) {
	for i, d := range []graph.DType{graph.F16, graph.BF16} {
		for j, l := range []blockLayer{{tokens: 200, experts: 2, hidden: 512, width: 150}, {tokens: 40, experts: 2, hidden: 256, width: 70}} {
			w := []graph.DType{graph.Q8_0, graph.Q4_K, graph.MXFP4}[(i+j)%3]
			text := func(x graph.DType) string { return strings.Replace(l.text(w), "x f32", "x "+x.String(), 1) }
			in, _ := l.in(t, w, func(i int) int { return i % 2 })
			narrow := array.New(graph.T(d, l.tokens, l.hidden))
			require.NoError(t, narrow.SetFloat64s(in.set["x"].Float64s()))
			require.NoError(t, in.set["x"].SetFloat64s(narrow.Float64s()))
			given := l.arrays(t, w, in)
			for name, file := range map[string]string{"grouped_matmul_blocks": "grouped_blocks", "dot_general_blocks": "dot_general"} {
				want, f := onDevice(t, text(graph.F32), name, given)
				if rows := file + "_many_f32_f32"; j == 0 || file == "dot_general" { // whose rows are all tokens
					require.Equal(t, rows, f)
				} else {
					require.Equal(t, file+"_few_f32", f)
				}
				wide := array.Over(graph.T(graph.F32, len(want)/4), want)
				rounded := array.New(graph.T(d, len(want)/4))
				require.NoError(t, rounded.SetFloat64s(wide.Float64s()))
				given["x"] = narrow
				got, f := onDevice(t, text(d), name, given)
				given["x"] = in.set["x"]
				require.Contains(t, f, "_"+d.String()+"_f32")
				if !bytes.Equal(got, rounded.Bytes()) {
					t.Errorf("%s of %s and %s, %s: other bits than of the same numbers in f32, rounded", name, d, w, f)
				}
			}
		}
	}
}

// Rows with weight 0 are zeros, and nothing is read for them: the matrix of an expert
// that has no others may be NaNs.
func TestBlocksWithoutWeight(t *testing.T) {
	for _, tokens := range []int{6, 66} { // vectors, tiles
		l := blockLayer{tokens: tokens, experts: 2, hidden: 32, width: 9, weighted: true, align: 4}
		in, _ := l.in(t, graph.Q8_0, func(i int) int { return i % 2 })
		g, k := array.Data[float32](in.set["g"]), in.set["k"].Bytes()
		for i := range g {
			g[i] = float32(1 - i%2)
		}
		// A row among others with weight.
		g[2] = 0
		array.Data[float32](in.set["x"])[2*l.hidden] = float32(math.NaN())
		nan := make([]float32, l.width*l.hidden)
		nan[0] = float32(math.NaN())
		for r := range l.width {
			nan[r*l.hidden] = float32(math.NaN())
		}
		require.NoError(t, quant.Quantize(k[len(k)/2:], graph.Q8_0, nan))
		p, err := gomoe.Parse("t", l.text(graph.Q8_0))
		require.NoError(t, err)
		plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Target: kernels.Metal{}})
		require.NoError(t, err)
		require.Contains(t, plan.String(), "grouped_matmul_blocks_weighted")
		check(t, l.text(graph.Q8_0), gomoe.Config{}, in, "grouped_matmul_blocks_weighted")
		out, _ := onDevice(t, l.text(graph.Q8_0), "grouped_matmul_blocks_weighted", l.arrays(t, graph.Q8_0, in))
		zone := (tokens/2 + 3) / 4 * 4 * l.width
		rows := array.Data[float32](array.Over(graph.T(graph.F32, 2*zone), out[:8*zone]))
		for i, v := range rows[zone:] {
			if v != 0 {
				t.Fatalf("%d tokens: element %d of the last expert's rows is %v, want 0", tokens, i, v)
			}
		}
	}
}

// The code books in iq2_grid.metal and iq3_grid.metal are those of package quant.
func TestGrids(t *testing.T) {
	for _, c := range []struct {
		file, entry string
		want        func(i int) uint64
	}{
		{"iq2_grid.metal", `0x([0-9a-f]{16})ul`, func(i int) uint64 { return quant.IQ2Grid()[i] }},
		{"iq3_grid.metal", `0x([0-9a-f]{8})u`, func(i int) uint64 { return uint64(quant.IQ3Grid()[i]) }},
	} {
		text, err := kernels.Text(c.file)
		require.NoError(t, err)
		entries := regexp.MustCompile(c.entry).FindAllStringSubmatch(text, -1)
		require.Len(t, entries, 256)
		for i, e := range entries {
			v, err := strconv.ParseUint(e[1], 16, 64)
			require.NoError(t, err)
			if want := c.want(i); v != want {
				t.Errorf("%s: entry %d is %#x, want %#x", c.file, i, v, want)
			}
		}
	}
}
