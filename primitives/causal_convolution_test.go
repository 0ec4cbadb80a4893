package primitives_test

import (
	"fmt"
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

// A sequence computed in two parts, with the state of the first passed to the second, has the bits of a whole one.
func TestConvolutionCut(t *testing.T) {
	const rows, channels = 9, 37
	for _, d := range []string{"f32", "bf16", "f16"} {
		for _, k := range []int{1, 2, 4, 8} {
			program := func(n int) string {
				src := convolutionSrc(fmt.Sprintf("1,%d,%d", n, channels), fmt.Sprintf("%d,%d", channels, k), fmt.Sprintf("1,%d,%d", k-1, channels), "silu bias")
				return strings.ReplaceAll(src, "f64", d)
			}
			p, err := gomoe.Parse("p.graph", program(rows))
			require.NoError(t, err)
			in := row{}.inputs(p, 5)
			whole := eval(t, gomoe.Config{}, program(rows), in)
			part := func(s array.Array, from, to int) []array.Array {
				x := in["x"].Reshape(rows, channels).Rows(from, to).Reshape(1, to-from, channels)
				return eval(t, gomoe.Config{}, program(to-from), map[string]array.Array{"x": x, "w": in["w"], "s": s, "b": in["b"]})
			}
			for cut := range rows + 1 {
				first := part(in["s"], 0, cut)
				second := part(first[1], cut, rows)
				require.True(t, array.Equal(second[1], whole[1]), "%s: the state after a cut at %d", d, cut)
				y := whole[0].Reshape(rows, channels)
				require.True(t, array.Equal(first[0].Reshape(cut, channels), y.Rows(0, cut)), "%s: rows before a cut at %d", d, cut)
				require.True(t, array.Equal(second[0].Reshape(rows-cut, channels), y.Rows(cut, rows)), "%s: rows after a cut at %d", d, cut)
			}
		}
	}
}

// A sequence with a length has the results of a shorter sequence and zeros, in any row of the batch.
func TestConvolutionLengths(t *testing.T) {
	src := func(b, n int, with string) string {
		return convolutionSrc(fmt.Sprintf("%d,%d,3", b, n), "3,4", fmt.Sprintf("%d,3,3", b), with)
	}
	p, err := gomoe.Parse("p.graph", src(6, 5, "bias lengths"))
	require.NoError(t, err)
	in := row{in: gens{"n": values(4, 0, 5, 1, 3, 2)}}.inputs(p, 5)
	got := eval(t, gomoe.Config{}, src(6, 5, "bias lengths"), in)
	for b, n := range array.Data[int32](in["n"]) {
		n := int(n)
		alone := map[string]array.Array{"w": in["w"], "b": in["b"], "s": in["s"].Rows(b, b+1), "x": in["x"].Rows(b, b+1).Reshape(5, 3).Rows(0, n).Reshape(1, n, 3)}
		want := eval(t, gomoe.Config{}, src(1, n, "bias"), alone)
		y := got[0].Rows(b, b+1).Reshape(5, 3)
		require.True(t, array.Equal(y.Rows(0, n).Reshape(1, n, 3), want[0]), "sequence %d", b)
		require.Equal(t, make([]float64, (5-n)*3), y.Rows(n, 5).Float64s(), "sequence %d", b)
		require.True(t, array.Equal(got[1].Rows(b, b+1), want[1]), "the state of sequence %d", b)
	}
}

// Without a state a convolution begins with zeros of the type of x. With one weight the state has no rows.
func TestConvolutionWithoutState(t *testing.T) {
	for _, k := range []int{1, 3} {
		p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
			x, w := tr.Input("x", graph.BF16, 2, 5, 3), tr.Input("w", graph.BF16, 3, k)
			y, last := primitives.CausalConvolution(x, w, primitives.ConvolutionParams{})
			again, same := primitives.CausalConvolution(x, w, primitives.ConvolutionParams{State: primitives.Full(tr, 0, graph.BF16, 2, k-1, 3)})
			return []*graph.Value{y, last, again, same}
		})
		require.NoError(t, err)
		require.Equal(t, graph.T(graph.BF16, 2, k-1, 3), p.Out[1].Type)
		got, err := gomoe.Run(t.Context(), p, gomoe.Config{}, row{}.inputs(p, 3))
		require.NoError(t, err)
		require.True(t, array.Equal(got[0], got[2]))
		require.True(t, array.Equal(got[1], got[3]))
	}
}

// Sequences and channels that do not divide alike have the results of one rank. The gradients of weights are sums over
// ranks, which have its bits only with Exact.
func TestConvolutionOnUnevenMeshes(t *testing.T) {
	for _, batch := range []int{3, 8} {
		src := convolutionSrc(fmt.Sprintf("%d,6,7", batch), "7,4", fmt.Sprintf("%d,3,7", batch), "silu bias lengths")
		p, err := gomoe.Parse("p.graph", strings.ReplaceAll(src, "f64", "f32"))
		require.NoError(t, err)
		pull, err := vjp.Pullback(p)
		require.NoError(t, err)
		in := row{in: gens{"n": ints(0, 7)}}.inputs(pull, 5)
		exact := map[int]int{8: 8}[batch] // 0 for 3 sequences
		rows, weights := sharding.Split("dp", "", "ep"), sharding.Split("ep")
		run := func(mesh string) []array.Array {
			m, err := sharding.ParseMesh(mesh)
			require.NoError(t, err)
			cfg := gomoe.Config{Mesh: m, Exact: exact, Place: map[string]sharding.Spec{"x": rows, "s": rows, "ct_0": rows, "ct_1": rows, "w": weights, "b": weights, "n": sharding.Split("dp")}}
			cfg.Poison = true
			out, err := gomoe.Run(t.Context(), pull, cfg, in)
			require.NoError(t, err, mesh)
			return out
		}
		want := run("")
		for _, mesh := range []string{"dp=2", "dp=3", "ep=2", "ep=3", "dp=2,ep=2", "dp=2,ep=4"} {
			for i, got := range run(mesh) {
				if array.Equal(got, want[i]) {
					continue
				}
				d, _ := array.MaxDiff(got, want[i])
				name := pull.Out[i].Name
				require.True(t, exact == 0 && d < 1e-5 && (name == "grad(w)" || name == "grad(b)"), "%s: %s differs by %g", mesh, name, d)
			}
		}
	}
}
