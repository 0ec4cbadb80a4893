package primitives_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// copied is the problem's layer with a fixed number of replicas of its experts.
// It takes the weights of the experts.
func (p *problem) copied(t *testing.T, s spread, d graph.DType, copies int, more func(r primitives.Prepared) []*graph.Value) *graph.Program {
	l := p.layer
	l.Axis, l.Exchange = s.axis, s.exchange
	return trace(t, func(tr *graph.Tracer) []*graph.Value {
		r := primitives.Prepare(l, tr.Input("idx", graph.I32, p.tokens, p.k))
		x, w := tr.Input("x", d, p.tokens, p.hidden), tr.Input("w", d, p.tokens, p.k)
		kernel, of := tr.Input("kernel", d, l.Experts, p.hidden, p.width), tr.Input("rcopies", graph.I32, copies)
		r = primitives.Copies(r, of)
		own := primitives.ShardingConstraint(of, s.axisName())
		each := primitives.Gather(primitives.ShardingConstraint(kernel), own, 0)
		out := []*graph.Value{experts(r, x, w, each)}
		if more != nil {
			out = append(out, more(r)...)
		}
		return out
	})
}

// tables returns copies of n experts for a number of ranks: one of each, two of each, one of
// each and one of the last expert on every rank, and what balances random loads.
func tables(r *rand.Rand, n, ranks int) map[string]ep.Copies {
	var one, two, everywhere ep.Copies
	for e := range n {
		one = append(one, int32(n-1-e))
		two = append(two, int32(e), int32((e+1)%n))
	}
	cuts := ep.EqualSplit(n-1, ranks)
	for rank := range ranks {
		for e := cuts[rank]; e < cuts[rank+1]; e++ {
			everywhere = append(everywhere, int32(e))
		}
		everywhere = append(everywhere, int32(n-1))
	}
	loads := make([]float64, n)
	for e := range loads {
		loads[e] = float64(r.IntN(4) * r.IntN(50))
	}
	balanced, err := ep.BalanceCopies(loads, ep.EqualSplit(n+1+r.IntN(n), ranks))
	if err != nil {
		panic(err)
	}
	return map[string]ep.Copies{"one of each": one, "two of each": two, "one everywhere": everywhere, "balanced": balanced}
}

// spreadsOf returns the meshes of the contract, and those that divide nothing, with both ways
// home.
func spreadsOf(uneven bool) []spread {
	out := meshes()
	if uneven {
		out = nil
		for _, s := range []spread{{mesh: "ep=4", tokens: "ep"}, {mesh: "ep=4"}, {mesh: "dp=2,ep=3", tokens: "dp.ep"}, {mesh: "ep=3,dp=2", tokens: "ep"}} {
			for _, s.exchange = range []ep.Exchange{ep.Rows, ep.Sum} {
				out = append(out, s)
			}
		}
	}
	return out
}

// A layer with copies of its experts drops the same pairs and has the same bits as without
// copies on one rank, and the same gradients, which are exact as all numbers are small
// integers. The replicas of an expert take turns.
func TestContractCopies(t *testing.T) {
	for _, c := range []struct {
		tokens, experts, capacity int
		uneven                    bool
	}{{12, 12, 0, false}, {12, 6, 4, false}, {7, 5, 0, true}, {7, 5, 3, true}, {1, 3, 0, true}, {0, 3, 0, true}} {
		l := primitives.PrepareOp{Experts: c.experts, Capacity: c.capacity, Align: 2}
		p := newProblem(rng(c.tokens+c.capacity), l, c.tokens, 3)
		if c.tokens > 0 {
			p.idx[0], p.idx[1] = p.idx[2], p.idx[2]
		}
		out, dx, dw, dk := p.dense()
		for _, s := range spreadsOf(c.uneven) {
			for name, copies := range tables(rng(c.tokens), c.experts, max(s.parse(t).Size(s.axisName()), 1)) {
				t.Run(fmt.Sprintf("%d tokens %d experts capacity %d %s %s", c.tokens, c.experts, c.capacity, s, name), func(t *testing.T) {
					prog := p.copied(t, s, graph.F32, len(copies), func(r primitives.Prepared) []*graph.Value {
						return []*graph.Value{r.Value, r.Counts, r.Padded, r.Demand, r.Dropped}
					})
					in := p.arrays(graph.F32)
					in["rcopies"] = ids(copies, len(copies))
					got := s.run(t, prog, in)
					same(t, "out", got[0], out)
					routing, counts, demand := p.copies(copies)
					sameInts(t, "routing", got[1], routing)
					sameInts(t, "counts", got[2], counts)
					for i, n := range counts {
						counts[i] = (n + 1) / 2 * 2
					}
					sameInts(t, "padded", got[3], counts)
					sameInts(t, "demand", got[4], demand)
					for i, kept := range p.kept() {
						require.Equal(t, p.idx[i] >= 0 && !kept, array.Data[bool](got[5])[i])
					}
					grads := s.run(t, pullback(t, p.copied(t, s, graph.F32, len(copies), nil)), in)
					same(t, "gradient of tokens", grads[0], dx)
					same(t, "gradient of weights", grads[1], dw)
					same(t, "gradient of experts", grads[2], dk)
				})
			}
		}
	}
}

// copies returns where each pair goes, how many go to each copy, and how many choose each
// expert.
func (p *problem) copies(copies ep.Copies) (routing, counts, demand []int32) {
	counts, demand = make([]int32, len(copies)), make([]int32, p.layer.Experts)
	queue := make([]int, p.layer.Experts)
	for i, kept := range p.kept() {
		if p.idx[i] >= 0 {
			demand[p.idx[i]]++
		}
		if !kept {
			routing = append(routing, -1, -1)
			continue
		}
		c := copiesOf(copies).copy(p.idx[i], queue[p.idx[i]])
		queue[p.idx[i]]++
		routing = append(routing, int32(c), counts[c])
		counts[c]++
	}
	return routing, counts, demand
}

// copiesOf is the expert of each copy.
type copiesOf ep.Copies

// copy returns the copy of an expert to which pair n of the expert's queue goes.
func (c copiesOf) copy(expert int32, n int) int {
	var own []int
	for i, e := range c {
		if e == expert {
			own = append(own, i)
		}
	}
	return own[n%len(own)]
}

// A rank accepts the first rows for its copies, in the order of the batch, after the drops of
// the capacity. What is left has the bits of loops over its pairs.
func TestContractCopiesReceive(t *testing.T) {
	for i, l := range []primitives.PrepareOp{{Experts: 6, Receive: 5, Align: 2}, {Experts: 6, Receive: 7, Capacity: 5}, {Experts: 5, Receive: 1 << 40}} {
		for _, s := range append(spreadsOf(false), spreadsOf(true)...) {
			for name, copies := range tables(rng(i), l.Experts, max(s.parse(t).Size(s.axisName()), 1)) {
				t.Run(fmt.Sprintf("%+v %s %s", l, s, name), func(t *testing.T) {
					l := l
					l.Copies = len(copies)
					p := newProblem(rng(30+i), l, 24, 3)
					p.receiver, p.of = s.receivers(t, p.tokens, len(copies)), copiesOf(copies)
					out, dx, dw, dk := p.dense()
					prog := p.copied(t, s, graph.F32, len(copies), func(r primitives.Prepared) []*graph.Value {
						return []*graph.Value{r.Dropped, r.Counts, r.Value}
					})
					in := p.arrays(graph.F32)
					in["rcopies"] = ids(copies, len(copies))
					got := s.run(t, prog, in)
					same(t, "out", got[0], out)
					left := 0
					for i, kept := range p.kept() {
						require.Equal(t, p.idx[i] >= 0 && !kept, array.Data[bool](got[1])[i], "pair %d", i)
						require.Equal(t, kept, array.Data[int32](got[3])[2*i] >= 0, "pair %d", i)
						if kept {
							left++
						}
					}
					for _, n := range array.Data[int32](got[2]) {
						left -= int(n)
					}
					require.Zero(t, left, "counts of copies")
					grads := s.run(t, pullback(t, p.copied(t, s, graph.F32, len(copies), nil)), in)
					same(t, "gradient of tokens", grads[0], dx)
					same(t, "gradient of weights", grads[1], dw)
					same(t, "gradient of experts", grads[2], dk)
				})
			}
		}
	}
}

// Copies spread rows so that a step fits that would trap without them; what does not fit traps on
// every rank, and names the rank.
func TestContractCopiesReceiveTrap(t *testing.T) {
	const tokens = 12
	s := spread{mesh: "ep=3", tokens: "ep"}
	l := primitives.PrepareOp{Experts: 3, Receive: 4, Copies: 6, Trap: true, Label: "block 3"}
	p := newProblem(rng(3), l, tokens, 1).route(func(int, int) int { return 1 })
	prog, in := p.copied(t, s, graph.F32, 6, nil), p.arrays(graph.F32)
	j := s.open(t, prog)
	in["rcopies"] = ids(ep.Copies{0, 2, 1, 1, 0, 2}, 6)
	_, err := j.Step(t.Context(), in.only(prog))
	require.ErrorContains(t, err, "layer block 3: ep: rank 1: 12 rows to receive, want at most its receive capacity 4")
	in["rcopies"] = ids(ep.Copies{0, 1, 1, 2, 1, 0}, 6)
	out, _, _, _ := newProblem(rng(3), primitives.PrepareOp{Experts: 3}, tokens, 1).route(func(int, int) int { return 1 }).dense()
	same(t, "spread", step(t, j, prog, in.only(prog))[0], out)
}

// With any numbers the forward pass and the gradients of tokens and weights have the bits of
// one rank without copies; an expert's gradient is summed over its copies, and close.
func TestContractCopiesKeepBits(t *testing.T) {
	for _, d := range floatTypes {
		p := newProblem(rng(3), primitives.PrepareOp{Experts: 6, Capacity: 9}, 20, 3)
		in := p.arrays(d)
		r := rng(8)
		for _, name := range []string{"x", "w", "kernel", "ct_0"} {
			in[name] = uniform(-1, 1)(r, in[name].Type)
		}
		out := spread{}.run(t, p.program(t, spread{}, d), in)[0]
		grads := spread{}.run(t, pullback(t, p.program(t, spread{}, d)), in)
		tol := map[graph.DType]float64{graph.F64: 1e-14, graph.F32: 3e-6, graph.F16: 6e-3, graph.BF16: 6e-2}[d]
		for _, s := range append(meshes()[:len(meshes()):len(meshes())], spread{mesh: "ep=0-3/none/4-8", tokens: "ep"}) {
			copies, err := ep.BalanceCopies([]float64{9, 1, 40, 3, 0, 12}, ep.EqualSplit(9, max(s.parse(t).Size(s.axisName()), 1)))
			require.NoError(t, err)
			in["rcopies"] = ids(copies, 9)
			t.Run(fmt.Sprint(d, " ", s), func(t *testing.T) {
				s.sameOrClose(t, "out", s.run(t, p.copied(t, s, d, 9, nil), in)[0], out, tol)
				got := s.run(t, pullback(t, p.copied(t, s, d, 9, nil)), in)
				s.sameOrClose(t, "gradient of tokens", got[0], grads[0], tol)
				sameBits(t, "gradient of weights", got[1], grads[1])
				if diff, at := array.MaxDiff(got[2], grads[2]); diff > 4*tol {
					t.Errorf("gradient of experts: element %d differs by %g from one rank", at, diff)
				}
			})
		}
	}
}

// A program is compiled once for all copies: they are a value, which may change from step to
// step. Blocks of tokens go to the same copies.
func TestContractCopiesChange(t *testing.T) {
	p := newProblem(rng(4), primitives.PrepareOp{Experts: 4, Capacity: 7}, 16, 2)
	out, _, _, _ := p.dense()
	s := spread{mesh: "ep=2", tokens: "ep"}
	for name, prog := range map[string]*graph.Program{
		"whole": p.copied(t, s, graph.F32, 6, nil),
		"blocks": trace(t, func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(p.layer, tr.Input("idx", graph.I32, p.tokens, p.k))
			of := tr.Input("rcopies", graph.I32, 6)
			each := primitives.Gather(primitives.ShardingConstraint(tr.Input("kernel", graph.F32, 4, p.hidden, p.width)),
				primitives.ShardingConstraint(of, "ep"), 0)
			args := []*graph.Value{tr.Input("x", graph.F32, p.tokens, p.hidden), tr.Input("w", graph.F32, p.tokens, p.k)}
			return []*graph.Value{primitives.InBlocks(4, primitives.Copies(r, of), args, func(r primitives.Prepared, args []*graph.Value) *graph.Value {
				return experts(r, args[0], args[1], each)
			})}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			job, in := s.open(t, prog), p.arrays(graph.F32)
			for _, copies := range []ep.Copies{{0, 1, 2, 3, 3, 3}, {3, 2, 1, 0, 0, 1}, {2, 2, 2, 0, 1, 3}} {
				in["rcopies"] = ids(copies, 6)
				same(t, fmt.Sprint(copies), step(t, job, prog, in.only(prog))[0], out)
			}
		})
	}
}

// Copies that leave out an expert, or are of experts that there are not, are the same error on
// every rank, whether or not a token chooses the expert.
func TestContractCopiesWrong(t *testing.T) {
	p := newProblem(rng(4), primitives.PrepareOp{Experts: 3}, 4, 1).route(func(int, int) int { return 0 })
	for _, s := range []spread{{mesh: "ep=2", tokens: "ep"}, {mesh: "ep=4"}, {mesh: "dp=2", tokens: "dp"}} {
		prog := p.copied(t, s, graph.F32, 4, nil)
		for want, copies := range map[string]ep.Copies{
			"expert 2 has none of the 4 copies, want at least one of each of 3 experts": {0, 1, 1, 0},
			"copy 1 is of expert 3, want 0 to 2":                                        {0, 3, 1, 2},
			"copy 3 is of expert -1, want 0 to 2":                                       {0, 1, 2, -1},
		} {
			in := p.arrays(graph.F32)
			in["rcopies"] = ids(copies, 4)
			_, err := s.open(t, prog).Step(t.Context(), in.only(prog))
			require.ErrorContains(t, err, want, s.String())
		}
	}
}

// Mistakes in a program are errors at its line.
func TestContractCopiesRefused(t *testing.T) {
	run := func(f func(tr *graph.Tracer, r primitives.Prepared, x *graph.Value) *graph.Value) error {
		prog, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(primitives.PrepareOp{Experts: 4}, tr.Input("idx", graph.I32, 8, 2))
			return []*graph.Value{f(tr, r, tr.Input("x", graph.F32, 8, 4))}
		})
		if err == nil {
			_, err = gomoe.Compile(t.Context(), prog, gomoe.Config{})
		}
		return err
	}
	for want, f := range map[string]func(tr *graph.Tracer, r primitives.Prepared, x *graph.Value) *graph.Value{
		"3 copies of 4 experts, want at least one of each": func(tr *graph.Tracer, r primitives.Prepared, x *graph.Value) *graph.Value {
			return primitives.Dispatch(primitives.Copies(r, tr.Input("c", graph.I32, 3)), x)
		},
		"copies are i64[6], want i32[copies]": func(tr *graph.Tracer, r primitives.Prepared, x *graph.Value) *graph.Value {
			return primitives.Dispatch(primitives.Copies(r, tr.Input("c", graph.I64, 6)), x)
		},
		"weights f32[4,4,4] of 4 experts, but tokens were routed to 6": func(tr *graph.Tracer, r primitives.Prepared, x *graph.Value) *graph.Value {
			r = primitives.Copies(r, tr.Input("c", graph.I32, 6))
			return primitives.Combine(r, primitives.GroupedMatMul(r, primitives.Dispatch(r, x), tr.Input("k", graph.F32, 4, 4, 4)))
		},
		"receive=3 has been applied to the rows that ranks receive without copies; give PrepareOp.Copies their number, 6": func(tr *graph.Tracer, r primitives.Prepared, x *graph.Value) *graph.Value {
			r.Op.Receive = 3
			return primitives.Dispatch(primitives.Copies(r, tr.Input("c", graph.I32, 6)), x)
		},
		"copies: i32[6], but the routing is for 5 copies; give PrepareOp.Copies as many": func(tr *graph.Tracer, r primitives.Prepared, x *graph.Value) *graph.Value {
			r.Op.Copies = 5
			return primitives.Dispatch(primitives.Copies(r, tr.Input("c", graph.I32, 6)), x)
		},
		"in_blocks: receive=3 is applied to all blocks together by Copies; call it before": func(tr *graph.Tracer, r primitives.Prepared, x *graph.Value) *graph.Value {
			r.Op.Receive, r.Op.Copies = 3, 6
			return primitives.InBlocks(4, r, []*graph.Value{x}, func(r primitives.Prepared, args []*graph.Value) *graph.Value { return args[0] })
		},
		"but the routing was made by ep_copies with experts=6": func(tr *graph.Tracer, r primitives.Prepared, x *graph.Value) *graph.Value {
			c := primitives.Copies(r, tr.Input("c", graph.I32, 6))
			r.Value = c.Value // dispatched as without copies
			return primitives.Combine(r, primitives.Dispatch(r, x))
		},
	} {
		err := run(f)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "contract_copies_test.go:")
	}
}

// A rank has room for as many rows of a token as it has copies, where the choices of a token
// differ.
func TestContractCopiesRoom(t *testing.T) {
	const tokens, k, copies = 16, 4, 8
	prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
		_, chosen, _ := primitives.Route(primitives.RouteOp{TopK: k}, tr.Input("logits", graph.F32, tokens, 6), nil)
		r := primitives.Copies(primitives.Prepare(primitives.PrepareOp{Experts: 6}, chosen), tr.Input("rcopies", graph.I32, copies))
		return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, tr.Input("x", graph.F32, tokens, 4)))}
	})
	for ranks, rows := range map[int]int{2: tokens * k, 4: tokens * 2, 8: tokens} {
		s := spread{mesh: fmt.Sprint("ep=", ranks), tokens: "ep"}
		plan, err := gomoe.Compile(t.Context(), prog, s.config(t, prog))
		require.NoError(t, err)
		ragged := 0
		for _, b := range plan.Bufs {
			if b.Spec.Ragged != nil {
				ragged++
				require.Equal(t, rows, b.Type.Shape[0], "%d ranks", ranks)
			}
		}
		require.Positive(t, ragged)
	}
}

// Where a rank holds the weights of its copies, a layer exchanges what it exchanges without
// copies and with all choices. Weights that lie with their experts are gathered, and their gradient
// is scattered.
func TestContractCopiesExchange(t *testing.T) {
	layer := func(copies bool) *graph.Program {
		return trace(t, func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(primitives.PrepareOp{Experts: 6, Capacity: 15}, tr.Input("idx", graph.I32, 8, 2))
			x, w, kernel := tr.Input("x", graph.F32, 8, 4), tr.Input("w", graph.F32, 8, 2), tr.Input("kernel", graph.F32, 6, 4, 3)
			if copies {
				r = primitives.Copies(r, tr.Input("rcopies", graph.I32, 6))
			}
			return []*graph.Value{experts(r, x, w, kernel)}
		})
	}
	p := newProblem(rng(4), primitives.PrepareOp{Experts: 6}, 8, 2)
	exchanged := func(s spread, p *graph.Program) []string {
		plan, err := gomoe.Compile(t.Context(), p, s.config(t, p))
		require.NoError(t, err)
		return exchanges(plan)
	}
	for _, s := range []spread{{mesh: "ep=2", tokens: "ep"}, {mesh: "dp=2,ep=2", tokens: "dp.ep"}, {mesh: "ep=2"}} {
		want := exchanged(s, pullback(t, layer(false)))
		require.NotEmpty(t, want)
		require.Equal(t, want, exchanged(s, pullback(t, layer(true))), s.String())
	}
	s := spread{mesh: "ep=2", tokens: "ep"}
	// 3 and 6 matrices of 48 bytes
	weights := []string{"all_gather ep 144 B sharding_constraint", "reduce_scatter ep 288 B place_like"}
	multiset(t, "weights that lie with their experts", exchanged(s, pullback(t, p.copied(t, s, graph.F32, 8, nil))),
		append(exchanged(s, pullback(t, layer(false))), weights...))
}
