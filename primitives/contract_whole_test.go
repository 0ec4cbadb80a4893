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
	"github.com/gomoe/gomoe/sharding"
)

// whole are meshes on which every rank along the experts' axis has the same tokens.
var whole = []spread{
	{mesh: "ep=2"}, {mesh: "ep=3"}, {mesh: "ep=4"}, {mesh: "dp=2,ep=2"}, {mesh: "ep=2,tp=2"},
}

// Any number of tokens that are whole over the experts' axis works, one token as well as
// none and seven: with a row per pair the results and gradients have the bits of one rank,
// and with sums of ranks they are close.
func TestContractWholeTokens(t *testing.T) {
	for _, tokens := range []int{0, 1, 7} {
		for _, d := range floatTypes {
			for _, capacity := range []int{0, 2} {
				l := primitives.PrepareOp{Experts: 12, Capacity: capacity, Align: 2}
				p := newProblem(rng(4+tokens), l, tokens, 3)
				in := p.arrays(d)
				r := rng(8)
				for _, name := range []string{"x", "w", "kernel", "ct_0"} {
					in[name] = uniform(-1, 1)(r, in[name].Type)
				}
				out := spread{}.run(t, p.program(t, spread{}, d), in)[0]
				grads := spread{}.run(t, pullback(t, p.program(t, spread{}, d)), in)
				for _, s := range whole {
					for _, s.exchange = range []ep.Exchange{ep.Rows, ep.Sum} {
						t.Run(fmt.Sprintf("%d tokens %s capacity %d %s", tokens, d, capacity, s), func(t *testing.T) {
							tol := map[graph.DType]float64{graph.F64: 1e-14, graph.F32: 3e-6, graph.F16: 6e-3, graph.BF16: 6e-2}[d]
							s.sameOrClose(t, "out", s.run(t, p.program(t, s, d), in)[0], out, tol)
							got := s.run(t, pullback(t, p.program(t, s, d)), in)
							s.sameOrClose(t, "gradient of tokens", got[0], grads[0], tol)
							sameBits(t, "gradient of weights", got[1], grads[1])
							sameBits(t, "gradient of experts", got[2], grads[2])
						})
					}
				}
			}
		}
	}
}

// Sums of ranks may be sent in bf16 or f16: the error comes from rounding each rank's sum.
func TestContractWholeTokensOnTheWire(t *testing.T) {
	p := newProblem(rng(4), primitives.PrepareOp{Experts: 12, Exchange: ep.Sum}, 7, 3)
	for _, d := range []graph.DType{graph.F32, graph.F64, graph.BF16} {
		in := p.arrays(d)
		for _, name := range []string{"x", "w", "kernel", "ct_0"} {
			in[name] = uniform(-1, 1)(rng(8), in[name].Type)
		}
		exact := spread{}.run(t, p.program(t, spread{}, d), in)[0]
		for wire, tol := range map[graph.DType]float64{graph.F32: 1e-6, graph.BF16: 1. / 128, graph.F16: 1. / 1024} {
			q := *p
			q.layer.Wire = wire
			s := spread{mesh: "ep=4", exchange: ep.Sum}
			got := s.run(t, q.program(t, s, d), in)[0]
			require.Equal(t, d, got.Type.DType)
			if d == graph.BF16 {
				tol += 1. / 128
			}
			if diff, at := array.MaxDiff(got, exact); !(diff <= 3*tol*max(1, largest(exact))) {
				t.Errorf("%s over %s: element %d differs by %g", d, wire, at, diff)
			}
			if d == graph.F32 && wire == graph.BF16 && array.Equal(got, exact) {
				t.Error("sums that travel in bf16 have the bits of f32")
			}
		}
	}
}

// A rank has room for the rows of its own experts alone, and no row travels before they are
// computed: one token on 4 ranks with 3 experts each.
func TestContractWholeTokensStay(t *testing.T) {
	p := newProblem(rng(4), primitives.PrepareOp{Experts: 12, Capacity: 1}, 1, 8)
	for exchange, bytes := range map[ep.Exchange]int{ep.Rows: 8 * 3 * 4, ep.Sum: 3 * 4} {
		s := spread{mesh: "ep=4", exchange: exchange}
		prog := p.program(t, s, graph.F32)
		plan, err := gomoe.Compile(t.Context(), prog, s.config(t, prog))
		require.NoError(t, err)
		multiset(t, "forward", exchanges(plan), []string{fmt.Sprintf("all_sum ep %d B ep_combine", bytes)})
		rows := 0
		for _, b := range plan.Bufs {
			if b.Spec.Ragged != nil {
				rows++
				require.Equal(t, 3, b.Type.Shape[0], b.Spec.Format(b.Global))
				require.Equal(t, "12", fmt.Sprint(p.layer.Experts))
			}
		}
		require.Positive(t, rows)
	}
}

// Combine preserves every bit: zeros keep their sign, and NaNs their payload.
func TestContractWholeTokensKeepBits(t *testing.T) {
	bits := []uint32{0x80000000, 0x7fc12345, 0xffc00001, 0x00000001, 0x80000001, 0x7f800000, 0xff800000, 0}
	w := array.New(graph.T(graph.F32, 4, 2))
	for i, b := range bits {
		array.Data[float32](w)[i] = math.Float32frombits(b)
	}
	in := arrays{"idx": ids([]int32{0, 1, 2, 3, 3, 2, 1, 0}, 4, 2), "x": of(graph.T(graph.BF16, 4, 3), linspace(12)), "w": w}
	for _, s := range []spread{{}, {mesh: "ep=2"}, {mesh: "ep=4"}, {mesh: "ep=2", exchange: ep.Sum}} {
		d := primitives.DispatchOp{Experts: 4, Exchange: s.exchange}
		prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(primitives.PrepareOp{Experts: 4, Exchange: s.exchange}, tr.Input("idx", graph.I32, 4, 2))
			rows, rw := primitives.DispatchWeighted(r, tr.Input("x", graph.BF16, 4, 3), tr.Input("w", graph.F32, 4, 2))
			return graph.Apply(primitives.CombineOp(d), rows, rw, r.Value)[1:]
		})
		got := array.Data[float32](s.run(t, prog, in)[0])
		for i, b := range bits {
			if x := math.Float32bits(got[i]); x != b {
				t.Errorf("%s: %#08x comes home as %#08x", s, b, x)
			}
		}
	}
}

// Tokens and routing decide together: if one of them is split over the experts' axis, the
// rows are dispatched. Constant rows are then placed like the other rows.
func TestContractWholeRoutingOfSplitTokens(t *testing.T) {
	prog := parse(t, `program p(x f32[8,4], idx i32[8,1], k f32[4,4,4]) {
	r, drop, n, pad, demand = ep_prepare(idx) experts=4
	rows = ep_dispatch(x, r) experts=4
	y = grouped_matmul(rows, k, r)
	z = ep_combine(y, r) experts=4
	loss = reduce_sum(z) axes=[0,1]
	return loss
}`)
	in := arrays{"x": of(graph.T(graph.F32, 8, 4), linspace(32)), "idx": ids([]int32{0, 3, 1, 3, 3, 0, 2, 1}, 8, 1), "k": of(graph.T(graph.F32, 4, 4, 4), linspace(64))}
	in["ct_0"] = of(graph.T(graph.F32), []float64{1})
	back := pullback(t, prog)
	want := spread{}.run(t, back, in)
	for _, place := range []map[string]string{{"x": "ep"}, {"idx": "ep"}, {}} {
		cfg := gomoe.Config{Mesh: spread{mesh: "ep=2"}.parse(t), Place: map[string]sharding.Spec{"k": sharding.Split("ep")}, Options: watched(t)}
		for name, axes := range place {
			cfg.Place[name] = sharding.Split(axes)
		}
		got, err := gomoe.Run(t.Context(), back, cfg, in.only(back))
		require.NoError(t, err, "%v", place)
		for i := range want {
			if diff, at := array.MaxDiff(got[i], want[i]); diff > 1e-5 {
				t.Errorf("%v: gradient %d differs by %g at %d", place, i, diff, at)
			}
		}
		plan, err := gomoe.Compile(t.Context(), prog, cfg)
		require.NoError(t, err)
		moves := fmt.Sprint(exchanges(plan))
		if len(place) == 0 {
			require.NotContains(t, moves, "all_to_all")
		} else {
			require.Contains(t, moves, "all_to_all")
		}
	}
}

// What a layer cannot do is an error at the user's line.
func TestContractExchangeMistakes(t *testing.T) {
	for want, l := range map[string]primitives.PrepareOp{
		`exchange "add", want "sum"`:                        {Experts: 4, Exchange: "add"},
		"wire=i32, want f32, bf16, f16, f8_e4m3 or f8_e5m2": {Experts: 4, Exchange: ep.Sum, Wire: graph.I32},
		`wire=bf16 without exchange="sum"`:                  {Experts: 4, Wire: graph.BF16},
	} {
		var line string
		_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
			line = nextLine()
			r := primitives.Prepare(l, tr.Input("idx", graph.I32, 8, 2))
			return []*graph.Value{r.Value}
		})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, line+": ")
	}
	// The rows of one layer return in one way.
	_, err := gomoe.Compile(t.Context(), parse(t, `program p(x f32[8,4], q i32[8,1,2]) {
	rows = ep_dispatch(x, q) experts=4
	y = ep_combine(rows, q) experts=4 exchange="sum"
	return y
}`), gomoe.Config{})
	require.ErrorContains(t, err, "give both the same")
}
