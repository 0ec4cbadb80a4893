package kernels_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// Every scaling of angles, with pairs of both kinds, forth and back, over whole heads and parts
// of them, at positions that the program computes, some below 0 and some as large as there are.
func TestRopeOptions(t *testing.T) {
	const base, batch, length = 500000, 2, 6
	scalings := func(width int) []primitives.RoPEOp {
		return []primitives.RoPEOp{
			{Base: base, Width: width},
			nn.LinearRoPE{Factor: 4}.RoPE(base, width),
			nn.NTKRoPE{Factor: 8}.RoPE(base, width),
			nn.NTKRoPE{Factor: 2, Original: 4096, Length: 32768}.RoPE(0, width),
			nn.YaRN{Factor: 40, Original: 4096, MScale: 1, MScaleAllDim: 0.5}.RoPE(base, width),
			nn.YaRN{Factor: 16, Original: 8192, Fast: 64, Slow: 2, Fractions: true}.RoPE(0, width),
			nn.Llama3RoPE{Factor: 8, Low: 1, High: 4, Original: 8192}.RoPE(base, width),
			nn.LongRoPE{Factors: []float64{1, 1.5, 2, 7.25, 30, 62}[:width/2], Factor: 32, Original: 4096}.RoPE(0, width),
		}
	}
	for i, d := range []graph.DType{graph.F32, graph.BF16, graph.F16} {
		width := []int{12, 8, 12}[i]
		p, err := graph.Trace("rope", func(tr *graph.Tracer) []*graph.Value {
			x := tr.Input("x", d, batch, length, 3, 12)
			each, all, first := tr.Input("each", graph.I32, batch, length), tr.Input("all", graph.I32, length), tr.Input("first", graph.I32, batch, 1)
			line := primitives.BroadcastInDim(primitives.Iota(tr, graph.I32, 0, length), []int{batch, length}, 1)
			from := primitives.Add(primitives.BroadcastInDim(first, []int{batch, length}, 0, 1), line) // as in decoding
			var out []*graph.Value
			for j, op := range scalings(width) {
				for k := range 4 {
					op.Interleaved, op.Inverse = k%2 == 1, k/2 == 1
					out = append(out, primitives.RoPE(x, []*graph.Value{each, all, from, nil}[(j+k)%4], op))
				}
			}
			return out
		})
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(1, 2))
		in := map[string]array.Array{"x": randomFloats(r, p.In[0].Type)}
		for _, v := range p.In[1:] {
			a := array.New(v.Type)
			for i := range array.Data[int32](a) {
				array.Data[int32](a)[i] = int32(r.IntN(131000))
			}
			in[v.Name] = a
		}
		copy(array.Data[int32](in["each"]), []int32{-1, math.MaxInt32, math.MinInt32, 0})
		for _, mesh := range []string{"", "dp=2"} {
			t.Run(d.String()+mesh, func(t *testing.T) { compare(t, p, tokensOn(t, mesh, "x", "each", "first"), in, "rope") })
		}
	}
}

// Magnitudes that the rotated elements, but no floats, could be multiplied by are the host's.
func TestRopeMagnitudes(t *testing.T) {
	for _, c := range []struct {
		magnitude string
		refused   bool
	}{{"1e30", false}, {"-1e-30", false}, {"1e39", true}, {"-1e39", true}, {"1e-39", true}} {
		p := &program{}
		p.input("x", "f32[1,3,1,4]")
		p.input("t", "i32[3]")
		p.eq("rope(x, t) magnitude=%s", c.magnitude)
		p.fill = func(name string, x array.Array, _ *rand.Rand) {
			if name == "t" {
				copy(array.Data[int32](x), []int32{0, 1, 2})
			}
		}
		if !c.refused {
			p.options.Instructions = []string{"rope"}
			p.check(t, false)
			continue
		}
		in := p.plan(t, false).Instrs
		require.Contains(t, in[len(in)-1].Why, "magnitude", c.magnitude)
	}
}
