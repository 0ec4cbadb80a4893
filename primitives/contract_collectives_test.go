package primitives_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// routed is a whole MoE layer: a router with logits x times its weights,
// and linear experts.
func routed(l primitives.PrepareOp, x, router, kernel *graph.Value, k int) *graph.Value {
	logits := primitives.ConvertElementType(primitives.MatMul(x, router), graph.F32)
	w, idx, _ := primitives.Route(primitives.RouteOp{TopK: k}, logits, nil)
	return experts(primitives.Prepare(l, idx), x, primitives.ConvertElementType(w, x.Type.DType), kernel)
}

// exchanges lists a plan's collectives: op, axes, bytes that a rank contributes,
// and the primitive that asked for it.
func exchanges(p *lowering.Plan) []string {
	var out []string
	for _, c := range p.Report(1).Comm.Collectives {
		out = append(out, fmt.Sprintf("%s %s %d B %s", c.Op, strings.Join(c.Axes, "."), c.Bytes, c.Prim))
	}
	return out
}

// A layer makes exactly these exchanges. T=8 tokens, H=6, F=3, E=4, K=2, f32, two
// tokens per rank: a row has 4·H bytes, a weight 4. On the way out a rank contributes a row
// with its choices for each of its tokens and each of the other ranks, and home a row for each of
// its 4 pairs. TransformerEngine looks for three kinds of resharding in its compiled text;
// here every exchange of every kind counts.
func TestContractInventoryOfCollectives(t *testing.T) {
	const tokens, h, f, e, k = 8, 6, 3, 4, 2
	build := func(d graph.DType, axis string, grad bool) func(*graph.Tracer) []*graph.Value {
		return func(tr *graph.Tracer) []*graph.Value {
			x, router, kernel := tr.Input("x", d, tokens, h), tr.Input("router", d, h, e), tr.Input("kernel", d, e, h, f)
			out := routed(primitives.PrepareOp{Experts: e, Axis: axis}, x, router, kernel, k)
			if !grad {
				return []*graph.Value{out}
			}
			ct := tr.Input("ct", d, tokens, f)
			return vjp.Backward([]*graph.Value{out}, []*graph.Value{ct}, []*graph.Value{x, router, kernel})
		}
	}
	const (
		dispatch  = "all_to_all ep 88 B ep_dispatch" // 2 rows of 6 values, 2 weights, 2 choices and a number
		combine   = "all_to_all ep 48 B ep_combine"  // 4 rows of 3 values
		combineT  = "all_to_all ep 48 B ep_dispatch"
		dispatchT = "all_to_all ep 112 B ep_combine"
		router    = "all_sum dp.ep 96 B place_like" // 6·4 values
		wgrad     = "all_sum dp 144 B place_like"   // 2 experts' 6·3 values
	)
	for _, c := range []struct {
		name     string
		s        spread
		d        graph.DType
		fwd, bwd []string // bwd without the collectives of the forward pass that it repeats
	}{
		{"one rank", spread{}, graph.F32, nil, nil},
		{"dp=2,ep=2", spread{mesh: "dp=2,ep=2", tokens: "dp.ep"}, graph.F32,
			[]string{dispatch, combine}, []string{combineT, wgrad, dispatchT, router}},
		{"dp=2,ep=2 in bf16", spread{mesh: "dp=2,ep=2", tokens: "dp.ep"}, graph.BF16,
			[]string{"all_to_all ep 56 B ep_dispatch", "all_to_all ep 24 B ep_combine"},
			[]string{"all_to_all ep 24 B ep_dispatch", "all_sum dp 72 B place_like", "all_to_all ep 56 B ep_combine", "all_sum dp.ep 48 B place_like"}},
		{"permuted axes", spread{mesh: "ep=2,dp=2", tokens: "dp.ep"}, graph.F32,
			[]string{dispatch, combine}, []string{combineT, wgrad, dispatchT, "all_sum ep.dp 96 B place_like"}},
		{"ep=4", spread{mesh: "ep=4", tokens: "ep"}, graph.F32,
			[]string{"all_to_all ep 264 B ep_dispatch", combine}, []string{combineT, dispatchT, "all_sum ep 96 B place_like"}},
		{"dp=4: no tokens move", spread{mesh: "dp=4", tokens: "dp"}, graph.F32,
			nil, []string{"all_sum dp 416 B place_like"}},
		{"axes of size 1", spread{mesh: "dp=2,tp=1,ep=2", tokens: "dp.ep"}, graph.F32,
			[]string{dispatch, combine}, []string{combineT, wgrad, dispatchT, router}},
		{"fsdp", spread{mesh: "fsdp=2,ep=2", tokens: "fsdp.ep"}, graph.F32,
			[]string{dispatch, combine}, []string{combineT, "all_sum fsdp 144 B place_like", dispatchT, "all_sum fsdp.ep 96 B place_like"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			plans := map[bool]*lowering.Plan{}
			for _, grad := range []bool{false, true} {
				prog := trace(t, build(c.d, c.s.axis, grad))
				cfg := c.s.config(t, prog)
				plan, err := gomoe.Compile(t.Context(), prog, cfg)
				require.NoError(t, err)
				plans[grad] = plan
			}
			multiset(t, "forward", exchanges(plans[false]), c.fwd)
			// The backward program needs what was dispatched and not what was
			// combined, so it repeats the forward pass except its last exchange.
			fwd := c.fwd
			if len(fwd) == 2 {
				fwd = fwd[:1]
			}
			// Sums stay pending from grouped_outer and dot_general until the
			// gradients are placed like their values.
			multiset(t, "backward", exchanges(plans[true]), append(slices.Clone(fwd), c.bwd...))
		})
	}
}

func multiset(t *testing.T, what string, got, want []string) {
	t.Helper()
	g, w := slices.Clone(got), slices.Clone(want)
	slices.Sort(g)
	slices.Sort(w)
	if !slices.Equal(g, w) {
		t.Errorf("%s exchanges\n\t%s\nwant\n\t%s", what, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// Tokens are split over dp only, so that both ranks of an ep group have the same tokens.
// Nothing is dispatched, and what comes together is one sum, forward and backward: of a row
// for each of a rank's 8 pairs, or of a row for each of its 4 tokens.
func TestContractInventoryWithTokensOverDP(t *testing.T) {
	const tokens, h, f, e, k = 8, 6, 3, 4, 2
	s := spread{mesh: "dp=2,ep=2", tokens: "dp"}
	const wgrad = "all_sum dp 144 B place_like"
	for _, c := range []struct {
		d        graph.DType
		exchange ep.Exchange
		wire     graph.DType
		fwd, bwd []string
	}{
		{graph.F32, ep.Rows, graph.NoDType, []string{"all_sum ep 96 B ep_combine"}, // 8 rows of 3 values
			[]string{"all_sum ep 224 B ep_combine", wgrad}}, // 8 rows of 6 values and a weight
		{graph.F32, ep.Sum, graph.NoDType, []string{"all_sum ep 48 B ep_combine"}, // 4 rows of 3 values
			[]string{"all_sum ep 96 B ep_combine", "all_sum ep 32 B ep_combine", wgrad}}, // 4 rows of 6 values; 8 weights
		{graph.BF16, ep.Sum, graph.NoDType, []string{"all_sum ep 48 B ep_combine"},
			[]string{"all_sum ep 96 B ep_combine", "all_sum ep 16 B ep_combine", "all_sum dp 72 B place_like"}},
		{graph.F32, ep.Sum, graph.BF16, []string{"all_sum ep 24 B ep_combine"},
			[]string{"all_sum ep 48 B ep_combine", "all_sum ep 32 B ep_combine", wgrad}},
	} {
		prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(primitives.PrepareOp{Experts: e, Exchange: c.exchange, Wire: c.wire}, tr.Input("idx", graph.I32, tokens, k))
			return []*graph.Value{experts(r, tr.Input("x", c.d, tokens, h), tr.Input("w", c.d, tokens, k), tr.Input("kernel", c.d, e, h, f))}
		})
		plan, err := gomoe.Compile(t.Context(), prog, s.config(t, prog))
		require.NoError(t, err)
		multiset(t, "forward", exchanges(plan), c.fwd)
		require.Equal(t, "dp,_", plan.Out[0].Spec.String())

		back := pullback(t, prog)
		plan, err = gomoe.Compile(t.Context(), back, s.config(t, back))
		require.NoError(t, err)
		multiset(t, "backward", exchanges(plan), c.bwd)
	}
}

// Every rank has one order of exchanges, numbered from 0: independent layers
// cannot meet each other's.
func TestContractOneOrderOfExchanges(t *testing.T) {
	eachSpread(t, func(t *testing.T, s spread) {
		prog := stack(t, 4, primitives.PrepareOp{Experts: 12, Axis: s.axis, Exchange: s.exchange})
		plan, err := gomoe.Compile(t.Context(), prog, s.config(t, prog))
		require.NoError(t, err)
		again, err := gomoe.Compile(t.Context(), prog, s.config(t, prog))
		require.NoError(t, err)
		require.Equal(t, plan.Hash(), again.Hash())
		n := 0
		for _, in := range plan.Instrs {
			if in.Communicates() {
				require.Equal(t, n, in.Seq)
				n++
			}
		}
	})
}
