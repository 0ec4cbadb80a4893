package primitives_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
)

// counter counts the bytes that ranks contribute to all_to_all, by the number of the
// exchange, including rows staying on the rank.
type counter struct {
	collective.Communicator
	sum *[8]atomic.Int64
}

func (c counter) Group(ranks []int) (collective.Group, error) {
	g, err := c.Communicator.Group(ranks)
	return countedGroup{g, c.sum}, err
}

type countedGroup struct {
	collective.Group
	sum *[8]atomic.Int64
}

func (g countedGroup) AllToAll(ctx context.Context, c collective.Call, dst, src [][]byte) error {
	n := int64(0)
	for _, b := range src {
		n += int64(len(b))
	}
	g.sum[c.Seq].Add(n)
	return g.Group.AllToAll(ctx, c, dst, src)
}

// contributed runs a program for a step and returns for each exchange of rows what the plan
// says that a rank contributes, and what ranks have contributed on average.
func contributed(t *testing.T, s spread, p *graph.Program, in arrays) (planned, actual []int64) {
	t.Helper()
	cfg := s.config(t, p)
	plan, err := gomoe.Compile(t.Context(), p, cfg)
	require.NoError(t, err)
	local, err := engine.Local(plan.Mesh.Ranks(), jaccl.Options{})
	require.NoError(t, err)
	var sum [8]atomic.Int64
	var comms []collective.Communicator
	for _, c := range local {
		comms = append(comms, counter{c, &sum})
	}
	session, err := runtime.Open(plan, comms, runtime.Options{})
	require.NoError(t, err)
	defer session.Close()
	placed := map[string]*runtime.Array{}
	for _, v := range p.In {
		placed[v.Name], err = session.Put(v.Name, in[v.Name])
		require.NoError(t, err)
	}
	_, err = session.Run(context.Background(), placed)
	require.NoError(t, err)
	for _, c := range plan.Report(1).Comm.Collectives {
		if c.Op == "all_to_all" {
			planned = append(planned, c.Bytes)
			actual = append(actual, sum[c.Seq].Load()/int64(len(comms)))
		}
	}
	return planned, actual
}

// A token's row travels once to each rank that has experts for it: 32 tokens per rank of 128
// bf16 numbers, on 2 ranks, are 16384 bytes, though each token chooses 8 experts. If the rows
// travel with their choices, those for the rank's own experts stay, and it is less. On the way home
// a row travels for each choice, or one for each rank.
func TestContractARowTravelsOncePerRank(t *testing.T) {
	const tokens, hidden, e, k = 64, 128, 64, 8
	idx := make([]int32, tokens*k)
	r := rng(3)
	for i := range tokens {
		for c, x := range r.Perm(e)[:k] {
			idx[i*k+c] = int32(x)
		}
	}
	for _, c := range []struct {
		exchange          ep.Exchange
		weights           bool
		capacity          int
		dispatch, combine int64
	}{
		{ep.Rows, false, 0, 32 * (256 + 36), 65536},
		{ep.Sum, false, 0, 32 * (256 + 36), 16384},
		{ep.Rows, true, 0, 32 * (256 + k*2 + 36), 65536},
		{ep.Sum, true, 0, 32 * (256 + k*2 + 36), 16384},
		{ep.Rows, false, 60, 16384, 65536},
		{ep.Sum, true, 60, 16384 + 64*k*2, 16384},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			p := trace(t, func(tr *graph.Tracer) []*graph.Value {
				r := primitives.Prepare(primitives.PrepareOp{Experts: e, Exchange: c.exchange, Capacity: c.capacity}, tr.Input("idx", graph.I32, tokens, k))
				x := tr.Input("x", graph.BF16, tokens, hidden)
				if !c.weights {
					return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, x))}
				}
				rows, w := primitives.DispatchWeighted(r, x, tr.Input("w", graph.BF16, tokens, k))
				return []*graph.Value{primitives.Combine(r, weighted(rows, w))}
			})
			in := arrays{"idx": ids(idx, tokens, k), "x": uniform(-1, 1)(rng(1), graph.T(graph.BF16, tokens, hidden)), "w": uniform(-1, 1)(rng(2), graph.T(graph.BF16, tokens, k))}
			planned, actual := contributed(t, spread{mesh: "ep=2", tokens: "ep"}, p, in)
			t.Logf("exchange %v: dispatch sends %d bytes, combine %d", c.exchange, planned[0], planned[1])
			require.Equal(t, []int64{c.dispatch, c.combine}, planned)
			for i := range planned {
				require.LessOrEqual(t, actual[i], planned[i])
				require.Greater(t, actual[i], planned[i]*9/10)
			}
		})
	}
}

// With exchange=sum the results match one rank if sums of numbers are exact, on
// every mesh, forward and backward, whatever is dropped and however zones are aligned; and
// with the rows in any type.
func TestContractSumsOfRanks(t *testing.T) {
	for i, l := range []primitives.PrepareOp{{Experts: 12}, {Experts: 12, Capacity: 5, Align: 4}, {Experts: 6, Capacity: 3}} {
		for _, k := range []int{1, 2, 4} {
			p := newProblem(rng(40+10*i+k), l, 24, k)
			out, dx, dw, dk := p.dense()
			for _, d := range []graph.DType{graph.F32, graph.F64, graph.BF16} {
				if d == graph.BF16 && k > 1 {
					continue // gradients would be rounded
				}
				t.Run(fmt.Sprintf("%+v k=%d %s", l, k, d), func(t *testing.T) {
					eachSpread(t, func(t *testing.T, s spread) {
						s.exchange = ep.Sum
						in := p.arrays(d)
						prog := p.program(t, s, d)
						require.Contains(t, prog.String(), `exchange="sum"`)
						same(t, "out", s.run(t, prog, in)[0], out)
						grads := s.run(t, pullback(t, prog), in)
						same(t, "gradient of tokens", grads[0], dx)
						same(t, "gradient of weights", grads[1], dw)
						same(t, "gradient of experts", grads[2], dk)
					})
				})
			}
		}
	}
}

// With exchange=sum a result differs from one rank's by the rounding of the sums of ranks
// only, and two steps have the same bits.
func TestContractSumsOfRanksAreClose(t *testing.T) {
	for _, c := range []struct {
		d   graph.DType
		tol float64
	}{{graph.F32, 1e-6}, {graph.BF16, 2e-2}, {graph.F16, 2e-3}} {
		t.Run(c.d.String(), func(t *testing.T) {
			eachSpread(t, func(t *testing.T, s spread) {
				l := primitives.PrepareOp{Experts: 12, Axis: s.axis, Exchange: ep.Sum}
				p := model(t, c.d, l, 4, "", true)
				in := arrays{}
				r := rng(5)
				for _, v := range p.In {
					in[v.Name] = uniform(-1, 1)(r, v.Type)
				}
				want := spread{}.run(t, p, in)
				job := s.open(t, p)
				got := step(t, job, p, in)
				for i := range got {
					scale := 0.0
					for _, x := range want[i].Float64s() {
						scale = max(scale, math.Abs(x))
					}
					if diff, at := array.MaxDiff(got[i], want[i]); diff > c.tol*scale {
						t.Errorf("%s: element %d differs by %g of at most %g from one rank", p.Out[i].Name, at, diff, scale)
					}
				}
				for i, a := range step(t, job, p, in) {
					sameBits(t, p.Out[i].Name, a, got[i])
				}
			})
		})
	}
}

// The room for rows that arrive is the tokens of the group, and never more than the pairs that
// capacities let through.
func TestContractRoomForWhatCanArrive(t *testing.T) {
	const tokens, hidden, k = 64, 16, 8
	room := func(t *testing.T, experts, capacity int) int {
		p := trace(t, func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(primitives.PrepareOp{Experts: experts, Capacity: capacity}, tr.Input("idx", graph.I32, tokens, k))
			return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, tr.Input("x", graph.F32, tokens, hidden)))}
		})
		plan, err := gomoe.Compile(t.Context(), p, spread{mesh: "ep=4", tokens: "ep"}.config(t, p))
		require.NoError(t, err)
		i := slices.IndexFunc(plan.Instrs, func(in lowering.Instr) bool { return strings.HasPrefix(in.Name(), "all_to_all") })
		return plan.Bufs[plan.Instrs[i].Out[0]].Type.Shape[0]
	}
	require.Equal(t, tokens, room(t, 16, 0))
	require.Equal(t, 4*3, room(t, 16, 3))
	require.Equal(t, tokens, room(t, 16, 1000))
}

// The room for rows of experts is what can arrive, times the number of choices of a token or
// of experts of a rank, whichever is less, unless a token may choose an expert twice.
func TestContractRoomForPairs(t *testing.T) {
	const tokens, hidden, k, experts = 64, 16, 8, 16
	plan := func(t *testing.T, s spread, op primitives.PrepareOp, choose func(tr *graph.Tracer) *graph.Value) *lowering.Plan {
		p := trace(t, func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(op, choose(tr))
			rows := primitives.Dispatch(r, tr.Input("x", graph.F32, tokens, hidden))
			return []*graph.Value{primitives.Combine(r, primitives.GroupedMatMul(r, rows, tr.Input("kernel", graph.F32, experts, hidden, hidden)))}
		})
		plan, err := gomoe.Compile(t.Context(), p, s.config(t, p))
		require.NoError(t, err)
		return plan
	}
	logits := func(tr *graph.Tracer) *graph.Value { return tr.Input("logits", graph.F32, tokens, experts) }
	route := func(tr *graph.Tracer) *graph.Value {
		_, ids, _ := primitives.Route(primitives.RouteOp{TopK: k}, logits(tr), nil)
		return ids
	}
	input := func(tr *graph.Tracer) *graph.Value { return tr.Input("idx", graph.I32, tokens, k) }
	for _, c := range []struct {
		name   string
		op     primitives.PrepareOp
		choose func(tr *graph.Tracer) *graph.Value
		rows   int
	}{
		{"route", primitives.PrepareOp{Experts: experts}, route, tokens * 2},
		{"top_k", primitives.PrepareOp{Experts: experts}, func(tr *graph.Tracer) *graph.Value {
			_, ids := primitives.TopK(logits(tr), k)
			return primitives.Reshape(primitives.ConvertElementType(ids, graph.I64), tokens, k)
		}, tokens * 2},
		{"given", primitives.PrepareOp{Experts: experts, Distinct: true}, input, tokens * 2},
		{"given, any", primitives.PrepareOp{Experts: experts}, input, tokens * k},
		{"capacity", primitives.PrepareOp{Experts: experts, Capacity: 5}, route, 2 * 5},
		{"computed", primitives.PrepareOp{Experts: experts}, func(tr *graph.Tracer) *graph.Value {
			return primitives.Max(route(tr), tr.Input("least", graph.I32, tokens, k))
		}, tokens * k},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, s := range []spread{{mesh: "ep=8", tokens: "ep"}, {mesh: "ep=8", tokens: "ep", exchange: ep.Sum}, {mesh: "ep=8"}} {
				op := c.op
				op.Exchange = s.exchange
				plan := plan(t, s, op, c.choose)
				i := slices.IndexFunc(plan.Instrs, func(in lowering.Instr) bool { return strings.HasPrefix(in.Name(), "grouped_matmul") })
				require.Equal(t, c.rows, plan.Bufs[plan.Instrs[i].Out[0]].Type.Shape[0], "%s", s)
			}
		})
	}
	t.Run("a token that chooses twice", func(t *testing.T) {
		for _, s := range []spread{{mesh: "ep=8", tokens: "ep"}, {mesh: "ep=8"}} {
			p := trace(t, func(tr *graph.Tracer) []*graph.Value {
				r := primitives.Prepare(primitives.PrepareOp{Experts: experts, Distinct: true}, input(tr))
				return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, tr.Input("x", graph.F32, tokens, hidden)))}
			})
			_, err := s.open(t, p).Step(context.Background(), arrays{"idx": ids(make([]int32, tokens*k), tokens, k), "x": array.New(graph.T(graph.F32, tokens, hidden))})
			require.ErrorContains(t, err, "the routing fills 512 rows, room is for 128")
			require.ErrorContains(t, err, "chooses an expert twice")
		}
	})
}
