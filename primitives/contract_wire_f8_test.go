package primitives_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// Rows, or sums of ranks, that travel home in 8 bits are off by what PrepareOp.Wire says. The
// cotangents of tokens are not: gradients keep their bits, or with sums of ranks come close.
// Where nothing travels, nothing is rounded.
func TestContractHomeIn8Bits(t *testing.T) {
	const tokens, k, experts, hidden = 12, 3, 12, 256
	const block = 128
	bounds := map[graph.DType][2]float64{graph.F8_E4M3: {1. / 16, 1. / 450000}, graph.F8_E5M2: {1. / 8, 1. / 7e9}}
	program := func(s spread, d, wire graph.DType, quantise bool) *graph.Program {
		return trace(t, func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(primitives.PrepareOp{Experts: experts, Capacity: 5, Axis: s.axis, Exchange: s.exchange, Wire: wire}, tr.Input("idx", graph.I32, tokens, k))
			rows, rw := primitives.DispatchWeighted(r, tr.Input("x", d, tokens, hidden), tr.Input("w", d, tokens, k))
			rows = weighted(rows, rw)
			if quantise {
				codes, scales := primitives.QuantizeF8(rows, graph.F8_E4M3, block)
				rows = primitives.DequantizeF8(codes, scales, d)
			}
			return []*graph.Value{primitives.Combine(r, rows)}
		})
	}
	p := newProblem(rng(5), primitives.PrepareOp{Experts: experts, Capacity: 5}, tokens, k)
	kept := p.kept()
	for _, d := range []graph.DType{graph.F32, graph.BF16, graph.F64} {
		in := arrays{"idx": ids(p.idx, tokens, k), "x": array.New(graph.T(d, tokens, hidden)), "w": uniform(-1, 1)(rng(3), graph.T(d, tokens, k)), "ct_0": array.New(graph.T(d, tokens, hidden))}
		r := rng(6)
		for _, name := range []string{"x", "ct_0"} {
			x := make([]float64, tokens*hidden)
			for i := range x {
				x[i] = r.NormFloat64() * math.Exp(4*r.NormFloat64()) // of very different sizes
			}
			require.NoError(t, in[name].SetFloat64s(x))
		}
		w := in["w"].Float64s()
		unit := map[graph.DType]float64{graph.F32: 1e-6, graph.BF16: 1. / 64, graph.F64: 1e-6}[d] // of the arithmetic beside
		// inBounds compares sums of w times x over the choices with got.
		inBounds := func(what string, got array.Array, x []float64, s spread, wire graph.DType) (rounded bool) {
			t.Helper()
			owner := func(e int32) int { return s.parse(t).Cuts([]string{"ep"}, experts).Owner(int(e)) }
			rows := map[int]map[int][]float64{} // by token, and by choice or rank
			for i, ok := range kept {
				if !ok {
					continue
				}
				by := i % k
				if s.exchange == ep.Sum {
					by = owner(p.idx[i])
				}
				if rows[i/k] == nil {
					rows[i/k] = map[int][]float64{}
				}
				if rows[i/k][by] == nil {
					rows[i/k][by] = make([]float64, hidden)
				}
				for c := range hidden {
					rows[i/k][by][c] += w[i] * x[i/k*hidden+c]
				}
			}
			b := bounds[wire]
			for i, y := range got.Float64s() {
				exact, off := 0.0, 0.0
				for _, row := range rows[i/hidden] {
					m := 0.0
					for _, v := range row[i%hidden/block*block:][:block] {
						m = max(m, math.Abs(v))
					}
					exact += row[i%hidden]
					off += b[0]*math.Abs(row[i%hidden]) + b[1]*m
				}
				for c := range k {
					if kept[i/hidden*k+c] {
						off += 2 * unit * math.Abs(w[i/hidden*k+c]*x[i])
					}
				}
				if math.Abs(y-exact) > off {
					t.Fatalf("%s: element %d is %g, exactly %g, off by %g of at most %g", what, i, y, exact, y-exact, off)
				}
				rounded = rounded || math.Abs(y-exact) > 0.01*math.Abs(exact)
			}
			return rounded
		}
		plain := spread{}.run(t, pullback(t, program(spread{}, d, graph.NoDType, false)), in)
		for _, s := range []spread{{mesh: "ep=3", tokens: "ep"}, {mesh: "dp=2,ep=2", tokens: "dp.ep"}, {mesh: "ep=3", tokens: "ep", exchange: ep.Sum}} {
			for _, wire := range []graph.DType{graph.F8_E4M3, graph.F8_E5M2} {
				what := fmt.Sprintf("%s over %s on %s", d, wire, s)
				prog := program(s, d, wire, false)
				got := s.run(t, prog, in)[0]
				require.Equal(t, d, got.Type.DType)
				require.True(t, inBounds(what, got, in["x"].Float64s(), s, wire), what)
				back := s.run(t, pullback(t, prog), in)
				if s.exchange == ep.Rows { // cotangents are not rounded on the return path
					sameBits(t, what+", gradient of tokens", back[0], plain[0])
				} else { // sums of ranks are rounded to the rows' type, which in 8 bits would be to 1/16
					most := 0.0
					for _, x := range plain[0].Float64s() {
						most = max(most, math.Abs(x))
					}
					diff, at := array.MaxDiff(back[0], plain[0])
					require.LessOrEqual(t, diff, most/100, "%s, gradient of tokens, element %d", what, at)
				}
				if d != graph.BF16 {
					sameBits(t, what+", gradient of weights", back[1], plain[1])
				}
				if d == graph.F32 && wire == graph.F8_E4M3 && s.exchange == ep.Rows {
					want := spread{}.run(t, program(spread{}, d, graph.NoDType, true), in)[0]
					sameBits(t, what+": rows that QuantizeF8 has rounded", got, want)
				}
			}
		}
		for _, s := range []spread{{}, {mesh: "dp=3", tokens: "dp"}, {mesh: "ep=3"}} {
			sameBits(t, s.String(), s.run(t, program(s, d, graph.F8_E4M3, false), in)[0], spread{}.run(t, program(spread{}, d, graph.NoDType, false), in)[0])
		}
	}
	// Home travel H + H/32 bytes of a row.
	for exchange, rows := range map[ep.Exchange]int{ep.Rows: 4 * k, ep.Sum: 4 * 3} {
		s := spread{mesh: "ep=3", tokens: "ep", exchange: exchange}
		prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(primitives.PrepareOp{Experts: experts, Exchange: exchange, Wire: graph.F8_E4M3}, tr.Input("idx", graph.I32, tokens, k))
			return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, tr.Input("x", graph.BF16, tokens, hidden)))}
		})
		plan, err := gomoe.Compile(t.Context(), prog, s.config(t, prog))
		require.NoError(t, err)
		require.Contains(t, exchanges(plan), fmt.Sprintf("all_to_all ep %d B ep_combine", rows*(hidden+hidden/32)))
	}
	_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		r := primitives.Prepare(primitives.PrepareOp{Experts: experts, Wire: graph.F8_E4M3}, tr.Input("idx", graph.I32, tokens, k))
		return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, tr.Input("x", graph.BF16, tokens, 130)))}
	})
	require.ErrorContains(t, err, "wire=f8_e4m3 for rows of 130 columns, want a multiple of 128")
}
