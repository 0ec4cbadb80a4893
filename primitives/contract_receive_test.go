package primitives_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// receivers returns which rank gets the row of a token for an expert, nil if no rows travel.
func (s spread) receivers(t *testing.T, tokens, experts int) func(token, expert int) int {
	m, axis := s.parse(t), s.axisName()
	axes := strings.Split(s.tokens, ".")
	if m.Size(axis) < 2 || !slices.Contains(axes, axis) {
		return nil
	}
	axes = slices.DeleteFunc(axes, func(a string) bool { return m.Size(a) == 0 })
	parts, owners := m.Cuts(axes, tokens), m.Cuts([]string{axis}, experts)
	return func(token, expert int) int {
		for rank := range m.Ranks() {
			if m.Index(rank, axes) == parts.Owner(token) {
				return m.Along(rank, axis, owners.Owner(expert))
			}
		}
		return -1
	}
}

// A rank accepts its first rows in the order of the batch. A token has the sum of the choices
// that are left, every gradient of a dropped pair is 0, and the drops are counted, on every
// mesh, with both exchanges, and combined with a capacity per expert.
func TestContractReceive(t *testing.T) {
	const tokens = 24
	for i, l := range []primitives.PrepareOp{
		{Experts: 12, Receive: 4}, {Experts: 12, Receive: 1, Align: 4}, {Experts: 6, Receive: 7, Capacity: 5}, {Experts: 5, Receive: 1 << 40},
	} {
		for _, k := range []int{1, 3} {
			t.Run(fmt.Sprintf("%+v k=%d", l, k), func(t *testing.T) {
				eachSpread(t, func(t *testing.T, s spread) {
					p := newProblem(rng(70+10*i+k), l, tokens, k)
					p.receiver = s.receivers(t, tokens, l.Experts)
					out, dx, dw, dk := p.dense()
					kept, counts, demand := p.kept(), make([]int32, l.Experts), make([]int32, l.Experts)
					drops := 0
					for i, e := range p.idx {
						if e < 0 {
							continue
						}
						demand[e]++
						if kept[i] {
							counts[e]++
						} else {
							drops++
						}
					}
					if p.receiver != nil && l.Receive < 5 {
						require.Positive(t, drops)
					}
					for _, exchange := range []ep.Exchange{ep.Rows, ep.Sum} {
						s.exchange = exchange
						l := l
						l.Axis, l.Exchange = s.axis, s.exchange
						prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
							r := primitives.Prepare(l, tr.Input("idx", graph.I32, tokens, k))
							x, w, kernel := tr.Input("x", graph.F32, tokens, 4), tr.Input("w", graph.F32, tokens, k), tr.Input("kernel", graph.F32, l.Experts, 4, 3)
							out := experts(r, x, w, kernel)
							grads := vjp.Backward([]*graph.Value{out}, []*graph.Value{tr.Input("ct_0", graph.F32, tokens, 3)}, []*graph.Value{x, w, kernel})
							return append(grads, out, r.Dropped, r.Demand, r.Counts, r.Value)
						})
						got := s.run(t, prog, p.arrays(graph.F32))
						same(t, "gradient of tokens", got[0], dx)
						same(t, "gradient of weights", got[1], dw)
						same(t, "gradient of experts", got[2], dk)
						same(t, "out", got[3], out)
						routing := array.Data[int32](got[7])
						for i, x := range array.Data[bool](got[4]) {
							if x != (p.idx[i] >= 0 && !kept[i]) || kept[i] != (routing[2*i] >= 0) || kept[i] != (routing[2*i+1] >= 0) {
								t.Fatalf("pair %d: dropped %v, routing %v, kept %v", i, x, routing[2*i:2*i+2], kept[i])
							}
						}
						sameInts(t, "demand", got[5], demand)
						sameInts(t, "counts", got[6], counts)
					}
				})
			})
		}
	}
}

// A layer that traps gives one error that names the rank, its rows, what it accepts and the
// remedy, before any row travels; the session goes on.
func TestContractReceiveTrap(t *testing.T) {
	l := primitives.PrepareOp{Experts: 12, Receive: 3, Trap: true, Label: "block 3"}
	fits := newProblem(rng(3), l, 12, 2).route(func(t, k int) int { return (t*4 + k) % 12 })
	fits.layer.Receive = 12
	over := newProblem(rng(3), l, 12, 2).route(func(t, k int) int { return 11 - k })
	for _, c := range []struct {
		s    spread
		rank int
		need int
	}{
		{spread{mesh: "ep=3", tokens: "ep"}, 2, 12},
		{spread{mesh: "dp=2,ep=2", tokens: "dp.ep"}, 1, 6}, // of both groups, the first
		{spread{mesh: "ep=2,dp=2", tokens: "dp.ep"}, 2, 6},
		{spread{mesh: "tp=2,ep=4", tokens: "ep", exchange: ep.Sum}, 3, 12},
	} {
		t.Run(c.s.String(), func(t *testing.T) {
			prog := over.program(t, c.s, graph.F32)
			j := c.s.open(t, prog)
			for range 3 {
				_, err := j.Step(context.Background(), over.arrays(graph.F32).only(prog))
				require.ErrorContains(t, err, fmt.Sprintf("layer block 3: ep: rank %d: %d rows to receive, want at most its receive capacity 3; raise the receive capacity to %d, or drop the rows that do not fit", c.rank, c.need, c.need))
				require.ErrorContains(t, err, "contract_harness_test.go:")
				var re *ep.ReceiveError
				var agreed *exec.AgreedError
				require.True(t, errors.As(err, &re) && errors.As(err, &agreed), "%v", err)
				require.Equal(t, ep.ReceiveError{Rank: c.rank, Need: c.need, Capacity: 3}, *re)
			}
			few := over.arrays(graph.F32).only(prog)
			few["idx"] = ids(slices.Repeat([]int32{-1}, 24), 12, 2)
			same(t, "a step of no choices", step(t, j, prog, few)[0], make([]float64, 36))
			plan := j.Plan()
			at := func(name string) int {
				return slices.IndexFunc(plan.Instrs, func(in lowering.Instr) bool { return in.Name() == name })
			}
			require.Less(t, at("ep_receive"), at("all_to_all"))
			out, _, _, _ := fits.dense()
			same(t, "what fits", c.s.run(t, fits.program(t, c.s, graph.F32), fits.arrays(graph.F32))[0], out)
		})
	}
	// Tokens that do not travel never trap.
	out, _, _, _ := over.dense()
	for _, s := range []spread{{}, {mesh: "ep=3"}, {mesh: "dp=3", tokens: "dp"}} {
		same(t, "nothing travels", s.run(t, over.program(t, s, graph.F32), over.arrays(graph.F32))[0], out)
	}
}

// The room for rows that arrive, and for those of the experts, is what a rank accepts.
func TestContractReceiveBoundsMemory(t *testing.T) {
	const tokens, hidden, k, experts = 64, 16, 8, 16
	room := func(t *testing.T, s spread, receive int, exchange ep.Exchange) (arrive, rows int) {
		p := trace(t, func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(primitives.PrepareOp{Experts: experts, Receive: receive, Distinct: true, Exchange: exchange}, tr.Input("idx", graph.I32, tokens, k))
			x := primitives.Dispatch(r, tr.Input("x", graph.F32, tokens, hidden))
			return []*graph.Value{primitives.Combine(r, primitives.GroupedMatMul(r, x, tr.Input("kernel", graph.F32, experts, hidden, hidden)))}
		})
		plan, err := gomoe.Compile(t.Context(), p, s.config(t, p))
		require.NoError(t, err)
		first := func(name string) int {
			i := slices.IndexFunc(plan.Instrs, func(in lowering.Instr) bool { return strings.HasPrefix(in.Name(), name) })
			require.GreaterOrEqual(t, i, 0)
			return plan.Bufs[plan.Instrs[i].Out[0]].Type.Shape[0]
		}
		if s.tokens == "" {
			return 0, first("grouped_matmul")
		}
		return first("all_to_all"), first("grouped_matmul")
	}
	for _, x := range []ep.Exchange{ep.Rows, ep.Sum} {
		for _, c := range []struct{ receive, arrive, rows int }{{0, 64, 256}, {10, 10, 40}, {64, 64, 256}, {1 << 40, 64, 256}} {
			arrive, rows := room(t, spread{mesh: "ep=4", tokens: "ep"}, c.receive, x)
			require.Equal(t, c.arrive, arrive, "%+v", c)
			require.Equal(t, c.rows, rows, "%+v", c)
		}
		_, rows := room(t, spread{mesh: "ep=4"}, 10, x)
		require.Equal(t, 256, rows, "tokens that every rank has do not travel")
	}
}

// A routing that ep_prepare has not made may have more rows for a rank than it accepts; that is
// an error.
func TestContractReceiveOfAnyRouting(t *testing.T) {
	const tokens = 8
	for _, c := range []struct {
		op   primitives.DispatchOp
		want string
	}{
		{primitives.DispatchOp{Experts: 2, Receive: 3}, "the routing fills 8 rows, room is for 6"}, // 2 choices each
		{primitives.DispatchOp{Experts: 2, Receive: 5}, "the routing fills 8 rows, room is for 5"},
		{primitives.DispatchOp{Experts: 2, Capacity: 5, Align: 8}, "the routing fills 8 rows, room is for 5"},
	} {
		p := trace(t, func(tr *graph.Tracer) []*graph.Value {
			r := tr.Input("idx", graph.I32, tokens, 2, 2)
			rows := graph.Apply1(c.op, tr.Input("x", graph.F32, tokens, 4), r)
			return []*graph.Value{graph.Apply1(primitives.CombineOp(c.op), rows, r)}
		})
		routing := slices.Repeat([]int32{0, 0, -1, -1}, tokens)
		_, err := spread{mesh: "ep=2", tokens: "ep"}.open(t, p).Step(context.Background(), arrays{"idx": ids(routing, tokens, 2, 2), "x": array.New(graph.T(graph.F32, tokens, 4))})
		require.ErrorContains(t, err, c.want)
	}
}
