package primitives_test

import (
	"context"
	"fmt"
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
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
)

// crossing counts the bytes that ranks send to ranks of other machines in all_to_all, by the
// number of the exchange. Machine i consists of the ranks from i·each on.
type crossing struct {
	collective.Communicator
	each int
	sum  *[8]atomic.Int64
}

func (c crossing) Group(ranks []int) (collective.Group, error) {
	g, err := c.Communicator.Group(ranks)
	return crossingGroup{g, c, ranks}, err
}

type crossingGroup struct {
	collective.Group
	c     crossing
	ranks []int
}

func (g crossingGroup) AllToAll(ctx context.Context, c collective.Call, dst, src [][]byte) error {
	for i, b := range src {
		if g.ranks[i]/g.c.each != g.c.Rank()/g.c.each {
			g.c.sum[c.Seq].Add(int64(len(b)))
		}
	}
	return g.Group.AllToAll(ctx, c, dst, src)
}

// crossed runs a program for a step, with `each` ranks on each machine, and returns for each
// exchange of rows the bytes that all ranks together send from machine to machine.
func crossed(t *testing.T, s spread, each int, p *graph.Program, in arrays) []int64 {
	t.Helper()
	plan, err := gomoe.Compile(t.Context(), p, s.config(t, p))
	require.NoError(t, err)
	local, err := engine.Local(plan.Mesh.Ranks(), jaccl.Options{})
	require.NoError(t, err)
	var sum [8]atomic.Int64
	var comms []collective.Communicator
	for _, c := range local {
		comms = append(comms, crossing{c, each, &sum})
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
	var out []int64
	for _, c := range plan.Report(1).Comm.Collectives {
		if c.Op == "all_to_all" {
			out = append(out, sum[c.Seq].Load())
		}
	}
	return out
}

// Where the mesh has machines, a row goes once to each machine that has experts for its token, and
// within the machine on to their ranks. Sums return the same way, one from each machine. Without
// machines it is one for each rank.
func TestContractARowTravelsOncePerMachine(t *testing.T) {
	const tokens, hidden, e, k, machines, each = 48, 64, 24, 6, 3, 2
	idx := make([]int32, tokens*k)
	r := rng(3)
	toMachines, toRanks, pairs := 0, 0, 0 // rows for other machines
	for i := range tokens {
		home := i * machines / tokens
		on, ranks := map[int]bool{}, map[int]bool{}
		for c, x := range r.Perm(e)[:k] {
			idx[i*k+c] = int32(x)
			if rank := x * machines * each / e; rank/each != home {
				on[rank/each], ranks[rank] = true, true
				pairs++
			}
		}
		toMachines += len(on)
		toRanks += len(ranks)
	}
	in := arrays{"idx": ids(idx, tokens, k), "x": uniform(-1, 1)(rng(1), graph.T(graph.BF16, tokens, hidden)), "w": uniform(-1, 1)(rng(2), graph.T(graph.BF16, tokens, k))}
	const row = hidden * 2
	for _, weights := range []int{0, k * 2} {
		layer := func(exchange ep.Exchange) *graph.Program {
			return trace(t, func(tr *graph.Tracer) []*graph.Value {
				r := primitives.Prepare(primitives.PrepareOp{Experts: e, Exchange: exchange, Capacity: tokens*k - 1}, tr.Input("idx", graph.I32, tokens, k))
				x := tr.Input("x", graph.BF16, tokens, hidden)
				if weights == 0 {
					return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, x))}
				}
				rows, w := primitives.DispatchWeighted(r, x, tr.Input("w", graph.BF16, tokens, k))
				return []*graph.Value{primitives.Combine(r, weighted(rows, w))}
			})
		}
		two, one := spread{mesh: "ep=3x2", tokens: "ep"}, spread{mesh: "ep=6", tokens: "ep"}
		out := int64(row + weights)
		require.Equal(t, []int64{int64(toMachines) * out, 0, int64(pairs) * row}, crossed(t, two, each, layer(ep.Rows), in))
		require.Equal(t, []int64{int64(toMachines) * out, 0, 0, int64(toMachines) * row}, crossed(t, two, each, layer(ep.Sum), in))
		require.Equal(t, []int64{int64(toRanks) * out, int64(toRanks) * row}, crossed(t, one, each, layer(ep.Sum), in))
		t.Logf("%d tokens: %d rows to machines, %d to ranks, %d pairs", tokens, toMachines, toRanks, pairs)
	}
	require.Less(t, 3*toMachines, 2*toRanks)
}

// The plan of a layer sending rows through machines has an exchange between machines and one
// within, forward and backward.
func TestContractMachinesExchanges(t *testing.T) {
	const tokens, h, f, e, k = 16, 6, 3, 8, 2
	const choices = "all_gather ep 16 B ep_prepare"
	for _, c := range []struct {
		exchange ep.Exchange
		fwd, bwd []string
	}{
		{ep.Rows,
			// 2 rows of 6 values and 2 weights leave, and 8 of them are passed on.
			[]string{choices, "all_to_all ep:machines 64 B ep_dispatch", "all_to_all ep:machine 256 B ep_dispatch", "all_to_all ep 48 B ep_combine"},
			[]string{choices, "all_to_all ep:machines 64 B ep_dispatch", "all_to_all ep:machine 256 B ep_dispatch",
				"all_to_all ep:machines 24 B ep_dispatch", "all_to_all ep:machine 96 B ep_dispatch", "all_to_all ep 112 B ep_combine"}},
		{ep.Sum,
			[]string{choices, "all_to_all ep:machines 64 B ep_dispatch", "all_to_all ep:machine 256 B ep_dispatch",
				"all_to_all ep:machine 96 B ep_combine", "all_to_all ep:machines 24 B ep_combine"},
			[]string{choices, "all_to_all ep:machines 64 B ep_dispatch", "all_to_all ep:machine 256 B ep_dispatch",
				"all_to_all ep:machines 24 B ep_dispatch", "all_to_all ep:machine 96 B ep_dispatch", "all_to_all ep:machine 256 B ep_combine", "all_to_all ep:machines 64 B ep_combine"}},
	} {
		s := spread{mesh: "ep=2x4", tokens: "ep"}
		prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(primitives.PrepareOp{Experts: e, Exchange: c.exchange}, tr.Input("idx", graph.I32, tokens, k))
			return []*graph.Value{experts(r, tr.Input("x", graph.F32, tokens, h), tr.Input("w", graph.F32, tokens, k), tr.Input("kernel", graph.F32, e, h, f))}
		})
		plan, err := gomoe.Compile(t.Context(), prog, s.config(t, prog))
		require.NoError(t, err)
		multiset(t, "forward", exchanges(plan), c.fwd)
		require.Contains(t, plan.String(), `mesh "ep=2x4" ranks=8`)
		back := pullback(t, prog)
		plan, err = gomoe.Compile(t.Context(), back, s.config(t, back))
		require.NoError(t, err)
		multiset(t, "backward", exchanges(plan), c.bwd)
	}
	// One rank on each machine has nobody to pass rows on to.
	s := spread{mesh: "ep=4x1", tokens: "ep"}
	prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
		r := primitives.Prepare(primitives.PrepareOp{Experts: e}, tr.Input("idx", graph.I32, tokens, k))
		return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, tr.Input("x", graph.F32, tokens, h)))}
	})
	plan, err := gomoe.Compile(t.Context(), prog, s.config(t, prog))
	require.NoError(t, err)
	require.NotContains(t, plan.String(), ":machine")
}

// A layer sending rows through machines has the bits of a layer sending rows straight to their
// ranks if one row per pair returns, and is close to it if sums return: with any number of
// tokens, rows of any type and on the wire, a capacity, a limit of rows, alignment, copies of
// experts, and ranges of experts.
func TestContractMachinesBits(t *testing.T) {
	type variant struct {
		mesh, plain, tokens string
		op                  primitives.PrepareOp
		copies, f8          bool
		tolerance           float64
	}
	variants := []variant{
		{"ep=2x2", "ep=4", "ep", primitives.PrepareOp{}, false, false, 0},
		{"ep=3x2", "ep=6", "ep", primitives.PrepareOp{Capacity: 4, Align: 4}, false, false, 0},
		{"dp=2,ep=2x2", "dp=2,ep=4", "dp.ep", primitives.PrepareOp{Receive: 5}, false, false, 0},
		{"ep=2x2,dp=2 order=7,5,6,4,3,2,1,0", "ep=4,dp=2 order=7,5,6,4,3,2,1,0", "dp.ep", primitives.PrepareOp{}, false, false, 0},
		{"ep=2x0-3/4/none/5-6", "ep=0-3/4/none/5-6", "ep", primitives.PrepareOp{}, false, false, 0},
		{"ep=2x2", "ep=4", "ep", primitives.PrepareOp{}, true, false, 0},
		{"ep=2x2", "ep=4", "ep", primitives.PrepareOp{}, false, true, 0},
		{"ep=2x3", "ep=6", "ep", primitives.PrepareOp{Exchange: ep.Sum, Receive: 5}, false, false, 1e-6},
		{"ep=2x2", "ep=4", "ep", primitives.PrepareOp{Exchange: ep.Sum}, true, false, 1e-6},
		{"ep=2x2", "ep=4", "ep", primitives.PrepareOp{Exchange: ep.Sum, Wire: graph.BF16}, false, false, 2e-2},
		{"ep=2x2", "ep=4", "ep", primitives.PrepareOp{Exchange: ep.Sum, Wire: graph.F8_E4M3}, false, true, 0.3},
	}
	for _, v := range variants {
		for _, tokens := range []int{24, 7, 1} {
			if tokens < 24 && v.copies {
				continue
			}
			t.Run(fmt.Sprintf("%+v %d", v, tokens), func(t *testing.T) {
				r := rng(tokens)
				const k, experts, f = 3, 7, 128
				hidden := 4
				if v.f8 {
					hidden = 128
				}
				l := v.op
				l.Experts = experts
				prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
					r := primitives.Prepare(l, tr.Input("idx", graph.I32, tokens, k))
					x, w, kernel := tr.Input("x", graph.F32, tokens, hidden), tr.Input("w", graph.F32, tokens, k), tr.Input("kernel", graph.F32, experts, hidden, f)
					if v.copies {
						of := tr.Input("rcopies", graph.I32, 8)
						r = primitives.Copies(r, of)
						kernel = primitives.Gather(primitives.ShardingConstraint(kernel), primitives.ShardingConstraint(of, "ep"), 0)
					}
					rows, rw := primitives.DispatchWeighted(r, x, w)
					if v.f8 {
						rows = primitives.DispatchF8(r, x, graph.F8_E4M3)
					}
					return []*graph.Value{primitives.Combine(r, weighted(primitives.GroupedMatMul(r, rows, kernel), rw))}
				})
				in := newProblem(r, l, tokens, k).arrays(graph.F32)
				in["rcopies"] = ids([]int32{0, 1, 2, 3, 4, 5, 6, 2}, 8)
				back := pullback(t, prog)
				for _, in0 := range slices.Concat(prog.In, back.In) {
					if in0.Type.DType == graph.F32 {
						in[in0.Name] = uniform(-1, 1)(r, in0.Type)
					}
				}
				var want []array.Array
				for _, mesh := range []string{v.plain, v.mesh} {
					s := spread{mesh: mesh, tokens: v.tokens}
					got := slices.Concat(s.run(t, prog, in), s.run(t, back, in))
					if want == nil {
						want = got
						continue
					}
					plan, err := gomoe.Compile(t.Context(), prog, s.config(t, prog))
					require.NoError(t, err)
					require.True(t, strings.Contains(plan.String(), "over ep:machines"))
					for i := range got {
						if v.tolerance == 0 {
							sameBits(t, fmt.Sprintf("result %d", i), got[i], want[i])
							continue
						}
						scale := 0.0
						for _, x := range want[i].Float64s() {
							scale = max(scale, x, -x)
						}
						if diff, at := array.MaxDiff(got[i], want[i]); diff > v.tolerance*scale {
							t.Errorf("result %d: element %d differs by %g of at most %g", i, at, diff, scale)
						}
					}
				}
			})
		}
	}
}
