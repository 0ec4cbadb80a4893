package primitives_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// If a row returning in 8 bits has a NaN or an infinity, its block is NaN, and no other
// block, of no token.
func TestContractHomeIn8BitsNaN(t *testing.T) {
	const tokens, k, experts, hidden, block = 6, 2, 12, 256, 128
	p := newProblem(rng(8), primitives.PrepareOp{Experts: experts}, tokens, k)
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		for _, s := range []spread{{mesh: "ep=3", tokens: "ep"}, {mesh: "ep=3", tokens: "ep", exchange: ep.Sum}, {mesh: "ep=2x2", tokens: "ep", exchange: ep.Sum}} {
			for _, wire := range []graph.DType{graph.F8_E4M3, graph.F8_E5M2} {
				prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
					r := primitives.Prepare(primitives.PrepareOp{Experts: experts, Exchange: s.exchange, Wire: wire}, tr.Input("idx", graph.I32, tokens, k))
					return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, tr.Input("x", d, tokens, hidden)))}
				})
				in := arrays{"idx": ids(p.idx, tokens, k), "x": uniform(-1, 1)(rng(3), graph.T(d, tokens, hidden))}
				plain := s.run(t, prog, in)[0].Float64s()
				x := in["x"].Float64s()
				lost := map[int]float64{1*hidden + 130: math.NaN(), 4*hidden + 5: math.Inf(1), 5*hidden + 255: math.Inf(-1)}
				var blocks [tokens * hidden / block]bool
				for i, v := range lost {
					x[i], blocks[i/block] = v, true
				}
				in["x"] = array.New(in["x"].Type)
				require.NoError(t, in["x"].SetFloat64s(x))
				for i, y := range s.run(t, prog, in)[0].Float64s() {
					if want := plain[i]; blocks[i/block] && !math.IsNaN(y) || !blocks[i/block] && y != want {
						t.Fatalf("%s over %s on %s: element %d is %g, in a block with NaN or infinity %v, without any %g", d, wire, s, i, y, blocks[i/block], want)
					}
				}
			}
		}
	}
}
