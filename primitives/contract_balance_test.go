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
	"github.com/gomoe/gomoe/vjp"
)

// balanced is two layers, one after the other, and the mean of their balance losses, which
// models compute after the last layer.
func balanced(t *testing.T, l primitives.PrepareOp, tokens, h, k int) *graph.Program {
	return trace(t, func(tr *graph.Tracer) []*graph.Value {
		x, router := tr.Input("x", graph.F32, tokens, h), tr.Input("router", graph.F32, h, l.Experts)
		kernel := tr.Input("kernel", graph.F32, l.Experts, h, h)
		var scores, demand, counts, padded []*graph.Value
		for range 2 {
			w, ids, s := primitives.Route(primitives.RouteOp{TopK: k, Renormalize: true}, primitives.MatMul(x, router), nil)
			r := primitives.Prepare(l, ids)
			x = experts(r, x, w, kernel)
			scores, demand = append(scores, s), append(demand, r.Demand)
			counts, padded = append(counts, r.Counts), append(padded, r.Padded)
		}
		loss := primitives.Add(primitives.LoadBalanceLoss(scores[0], demand[0], k), primitives.LoadBalanceLoss(scores[1], demand[1], k))
		return []*graph.Value{x, loss, demand[0], demand[1], counts[1], padded[0]}
	})
}

// A balance loss needs the loads of the experts, the sums of the ranks' counts. The
// rows do not wait for them: layers have their two exchanges each, the loads of all layers are
// one sum, and the losses one number for each token, stored for all layers in one array.
func TestContractBalanceLossExchanges(t *testing.T) {
	const tokens, h, e, k = 8, 6, 4, 2
	l := primitives.PrepareOp{Experts: e}
	for _, c := range []struct {
		s    spread
		op   primitives.PrepareOp
		want []string
	}{
		// The second layer's counts are stored 64 bytes after the first layer's.
		{spread{mesh: "ep=4", tokens: "ep"}, l, []string{"all_to_all ep 264 B ep_dispatch", "all_to_all ep 96 B ep_combine",
			"all_to_all ep 264 B ep_dispatch", "all_to_all ep 96 B ep_combine", "all_sum ep 80 B ep_prepare", "all_gather ep 16 B reduce_sum"}},
		{spread{mesh: "dp=2,ep=2", tokens: "dp.ep"}, l, []string{"all_to_all ep 88 B ep_dispatch", "all_to_all ep 96 B ep_combine",
			"all_to_all ep 88 B ep_dispatch", "all_to_all ep 96 B ep_combine", "all_sum dp.ep 80 B ep_prepare", "all_gather dp.ep 16 B reduce_sum"}},
		{spread{mesh: "dp=4", tokens: "dp"}, l, []string{"all_sum dp 80 B ep_prepare", "all_gather dp 16 B reduce_sum"}},
		// Where a capacity can drop pairs, every rank has all choices before.
		{spread{mesh: "ep=4", tokens: "ep"}, primitives.PrepareOp{Experts: e, Capacity: tokens - 1}, []string{
			"all_gather ep 16 B ep_prepare", "all_to_all ep 128 B ep_dispatch", "all_to_all ep 96 B ep_combine",
			"all_gather ep 16 B ep_prepare", "all_to_all ep 128 B ep_dispatch", "all_to_all ep 96 B ep_combine", "all_gather ep 16 B reduce_sum"}},
	} {
		prog := balanced(t, c.op, tokens, h, k)
		plan, err := gomoe.Compile(t.Context(), prog, c.s.config(t, prog))
		require.NoError(t, err)
		multiset(t, c.s.String(), exchanges(plan), c.want)
	}
}

// Loads, losses and results match one rank bit for bit, on every mesh, also where ranks
// have different numbers of tokens or none, and gradients are close.
func TestContractBalanceLossBits(t *testing.T) {
	const h, k = 4, 2
	l := primitives.PrepareOp{Experts: 5, Align: 4}
	for _, tokens := range []int{24, 7, 1} {
		t.Run(fmt.Sprint(tokens), func(t *testing.T) {
			in, r := arrays{}, rng(tokens)
			prog := balanced(t, l, tokens, h, k)
			back := pullback(t, prog)
			for _, v := range back.In {
				if v.Type.DType.IsFloat() {
					in[v.Name] = uniform(-1, 1)(r, v.Type)
				}
			}
			want, grads := spread{}.run(t, prog, in), spread{}.run(t, back, in)
			sum := 0
			for _, n := range array.Data[int32](want[2]) {
				sum += int(n)
			}
			require.Equal(t, tokens*k, sum)
			eachSpread(t, func(t *testing.T, s spread) {
				l := l
				l.Axis, l.Exchange = s.axis, s.exchange
				prog := balanced(t, l, tokens, h, k)
				for i, got := range s.run(t, prog, in) {
					if want[i].Type.DType == graph.I32 {
						sameBits(t, fmt.Sprintf("result %d", i), got, want[i])
					} else {
						s.sameOrClose(t, fmt.Sprintf("result %d", i), got, want[i], 1e-5)
					}
				}
				for i, got := range s.run(t, pullback(t, prog), in) {
					if d, at := array.MaxDiff(got, grads[i]); !(d <= 1e-5) {
						t.Errorf("gradient %d: element %d differs by %g from one rank", i, at, d)
					}
				}
			})
		})
	}
}

// Layers with their balance losses inside Remat sum the loads of their experts once, as without
// Remat, and their gradients have the same bits.
func TestContractBalanceLossInsideRemat(t *testing.T) {
	const tokens, h, k = 16, 6, 2
	build := func(op primitives.PrepareOp, remat bool) *graph.Program {
		return trace(t, func(tr *graph.Tracer) []*graph.Value {
			x, router := tr.Input("x", graph.F32, tokens, h), tr.Input("router", graph.F32, h, op.Experts)
			kernel := tr.Input("kernel", graph.F32, op.Experts, h, h)
			layer := func(_ *graph.Tracer, a []*graph.Value) []*graph.Value {
				w, ids, scores := primitives.Route(primitives.RouteOp{TopK: k, Renormalize: true}, primitives.MatMul(a[0], a[1]), nil)
				r := primitives.Prepare(op, ids)
				return []*graph.Value{experts(r, a[0], w, a[2]), primitives.LoadBalanceLoss(scores, r.Demand, k)}
			}
			y, loss := x, []*graph.Value(nil)
			for l := range 2 {
				var out []*graph.Value
				if args := []*graph.Value{y, router, kernel}; remat {
					out = vjp.Remat(fmt.Sprint("layer", l), layer, args...)
				} else {
					out = layer(tr, args)
				}
				y, loss = out[0], append(loss, out[1])
			}
			all := primitives.Add(primitives.ReduceSum(primitives.Square(y)), primitives.Add(loss[0], loss[1]))
			return append([]*graph.Value{all}, vjp.Gradients(all, x, router, kernel)...)
		})
	}
	for _, op := range []primitives.PrepareOp{{Experts: 4}, {Experts: 4, Capacity: 6}} {
		for _, s := range []spread{{}, {mesh: "ep=2", tokens: "ep"}, {mesh: "dp=2,ep=2", tokens: "dp.ep"}, {mesh: "dp=2", tokens: "dp"}} {
			plain, again := build(op, false), build(op, true)
			in := arrays{}
			for _, v := range plain.In {
				in[v.Name] = uniform(-1, 1)(rng(3), v.Type)
			}
			bytes := map[*graph.Program]int64{}
			for _, p := range []*graph.Program{plain, again} {
				plan, err := gomoe.Compile(t.Context(), p, s.config(t, p))
				require.NoError(t, err)
				for _, c := range plan.Report(1).Comm.Collectives {
					if c.Op == "all_sum" && strings.HasPrefix(c.Prim, "ep_prepare") {
						bytes[p] += c.Bytes
					}
				}
			}
			require.Equal(t, bytes[plain], bytes[again], "%s %+v: loads that are summed", s, op)
			require.Equal(t, s.mesh != "" && op.Capacity == 0, bytes[again] > 0, "%s %+v", s, op)
			want := s.run(t, plain, in)
			for i, got := range s.run(t, again, in) {
				sameBits(t, fmt.Sprintf("%s %+v: result %d", s, op, i), got, want[i])
			}
		}
	}
}
