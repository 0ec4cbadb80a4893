package primitives_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// uneven are numbers of tokens and of experts that their ranks do not divide: some ranks have
// one more than others, and some have none.
var uneven = []struct {
	tokens, experts int
	spreads         []spread
}{
	{7, 6, []spread{{mesh: "ep=4", tokens: "ep"}, {mesh: "ep=4"}, {mesh: "ep=4 order=3,1,0,2", tokens: "ep"}, {mesh: "dp=2,ep=2", tokens: "dp.ep"}, {mesh: "dp=2,ep=2", tokens: "ep.dp"}}},
	{1, 6, []spread{{mesh: "ep=4", tokens: "ep"}, {mesh: "dp=2,ep=4", tokens: "dp.ep"}}},
	{0, 3, []spread{{mesh: "ep=4", tokens: "ep"}}},
	{5, 3, []spread{{mesh: "ep=4", tokens: "ep"}, {mesh: "ep=4"}, {mesh: "a=2,b=3", tokens: "a.b", axis: "a"}, {mesh: "a=2,b=3", tokens: "b", axis: "a"}}},
	{7, 1, []spread{{mesh: "ep=2", tokens: "ep"}}},
	// Ranges that the user gives: the last rank may have the most.
	{7, 6, []spread{{mesh: "ep=0/none/1-5", tokens: "ep"}, {mesh: "ep=0/1-5"}, {mesh: "dp=2,ep=none/0-5", tokens: "dp.ep"}, {mesh: "a=0/1/2-5", tokens: "a", axis: "a"}}},
	{6, 6, []spread{{mesh: "ep=0/1-5", tokens: "ep"}, {mesh: "ep=0-1/2/3-5,dp=2", tokens: "dp.ep"}}}, // they cut as many tokens, too
}

// Numbers of tokens and of experts that the ranks do not divide give the bits of one rank,
// forward and backward, whatever is dropped; sums of ranks are close.
func TestContractUneven(t *testing.T) {
	for _, c := range uneven {
		for _, d := range floatTypes {
			for _, capacity := range []int{0, 2} {
				p := newProblem(rng(c.tokens), primitives.PrepareOp{Experts: c.experts, Capacity: capacity, Align: 2}, c.tokens, 3)
				in := p.arrays(d)
				r := rng(8)
				for _, name := range []string{"x", "w", "kernel", "ct_0"} {
					in[name] = uniform(-1, 1)(r, in[name].Type)
				}
				out := spread{}.run(t, p.program(t, spread{}, d), in)[0]
				grads := spread{}.run(t, pullback(t, p.program(t, spread{}, d)), in)
				for _, s := range c.spreads {
					for _, s.exchange = range []ep.Exchange{ep.Rows, ep.Sum} {
						t.Run(fmt.Sprintf("%d tokens %d experts %s capacity %d %s", c.tokens, c.experts, d, capacity, s), func(t *testing.T) {
							tol := map[graph.DType]float64{graph.F64: 1e-14, graph.F32: 3e-6, graph.F16: 6e-3, graph.BF16: 6e-2}[d]
							s.sameOrClose(t, "out", s.run(t, p.program(t, s, d), in)[0], out, tol)
							got := s.run(t, pullback(t, p.program(t, s, d)), in)
							s.sameOrClose(t, "gradient of tokens", got[0], grads[0], tol)
							sameBits(t, "gradient of weights", got[1], grads[1])
							if s.copies(t) == 1 {
								sameBits(t, "gradient of experts", got[2], grads[2])
							} else if diff, at := array.MaxDiff(got[2], grads[2]); diff > tol {
								t.Errorf("gradient of experts: element %d differs by %g from one rank", at, diff)
							}
						})
					}
				}
			}
		}
	}
}

// Second derivatives have the bits of one rank too.
func TestContractUnevenSecondDerivatives(t *testing.T) {
	for _, c := range uneven {
		if c.tokens == 0 {
			continue
		}
		l := primitives.PrepareOp{Experts: c.experts, Capacity: 3}
		second := func(s spread) *graph.Program {
			l := l
			l.Axis, l.Exchange = s.axis, s.exchange
			return trace(t, func(tr *graph.Tracer) []*graph.Value {
				x, w, kernel := tr.Input("x", graph.F64, c.tokens, 4), tr.Input("w", graph.F64, c.tokens, 2), tr.Input("kernel", graph.F64, c.experts, 4, 3)
				y := experts(primitives.Prepare(l, tr.Input("idx", graph.I32, c.tokens, 2)), x, w, kernel)
				first := vjp.Gradients(primitives.ReduceSum(primitives.Mul(y, primitives.Mul(y, y)), 0, 1), x, w)
				return vjp.Gradients(primitives.ReduceSum(primitives.Mul(first[0], first[0]), 0, 1), x, w, kernel)
			})
		}
		p := newProblem(rng(c.tokens), l, c.tokens, 2)
		in := p.arrays(graph.F64) // small integers, with exact sums in any order
		want := spread{}.run(t, second(spread{}), in)
		zeros := make([]float64, want[0].Type.Len())
		require.NotEqual(t, zeros, want[0].Float64s())
		for _, s := range c.spreads {
			for _, s.exchange = range []ep.Exchange{ep.Rows, ep.Sum} {
				t.Run(fmt.Sprintf("%d tokens %d experts %s", c.tokens, c.experts, s), func(t *testing.T) {
					for i, got := range s.run(t, second(s), in) {
						sameBits(t, fmt.Sprintf("derivative %d", i), got, want[i])
					}
				})
			}
		}
	}
}

// A demand above the capacity is the same error on every rank, also on those without tokens.
func TestContractUnevenTrap(t *testing.T) {
	p := newProblem(rng(1), primitives.PrepareOp{Experts: 3, Capacity: 1, Trap: true}, 2, 2).route(func(int, int) int { return 2 })
	for _, s := range []spread{{mesh: "ep=4", tokens: "ep"}, {mesh: "ep=4"}, {mesh: "dp=4", tokens: "dp"}} {
		prog := p.program(t, s, graph.F32)
		_, err := s.open(t, prog).Step(t.Context(), p.arrays(graph.F32).only(prog))
		require.ErrorContains(t, err, "expert 2: 4 pairs, want at most its capacity 1", s.String())
	}
}

// Each rank has memory for its own part, as the plan states.
func TestContractUnevenParts(t *testing.T) {
	p := newProblem(rng(1), primitives.PrepareOp{Experts: 6}, 7, 3)
	s := spread{mesh: "ep=4", tokens: "ep"}
	prog := p.program(t, s, graph.F32)
	plan, err := gomoe.Compile(t.Context(), prog, s.config(t, prog))
	require.NoError(t, err)
	for name, want := range map[string][]string{
		"x": {"f32[2,4]", "f32[2,4]", "f32[2,4]", "f32[1,4]"}, "kernel": {"f32[2,4,3]", "f32[2,4,3]", "f32[1,4,3]", "f32[1,4,3]"},
	} {
		for _, port := range plan.In {
			if port.Name != name {
				continue
			}
			var got []string
			for rank := range 4 {
				_, part := port.Spec.Box(plan.Mesh, rank, port.Type)
				got = append(got, part.String())
			}
			require.Equal(t, want, got)
			require.Contains(t, plan.String(), port.Spec.Uneven(plan.Mesh, port.Type))
		}
	}
	for _, b := range plan.Bufs { // any rank may receive all pairs
		if b.Spec.Ragged != nil {
			require.Equal(t, 7*3, b.Type.Shape[0])
		}
	}
}

// Ranges for another number of experts than the layer has are an error at the user's line.
func TestContractRangesOfOtherExperts(t *testing.T) {
	p := newProblem(rng(1), primitives.PrepareOp{Experts: 6}, 8, 2)
	s := spread{mesh: "ep=0-1/2-7", tokens: "ep"}
	prog := p.program(t, s, graph.F32)
	_, err := gomoe.Compile(t.Context(), prog, s.config(t, prog))
	require.ErrorContains(t, err, "6 experts over axis ep, whose ranges 0-1/2-7 are for 8; give ranges for 6, or the number of ranks")
	require.ErrorContains(t, err, "contract_harness_test.go:")
}

// One program may have layers with experts on different axes.
func TestContractLayersOnSeveralAxes(t *testing.T) {
	layer := func(axis string, experts int) *problem {
		return newProblem(rng(experts), primitives.PrepareOp{Experts: experts, Capacity: 4, Axis: axis}, 7, 2)
	}
	ps := []*problem{layer("a", 6), layer("b", 5), layer("a", 6)}
	in := arrays{}
	for i, p := range ps {
		for name, x := range p.arrays(graph.F32) {
			in[fmt.Sprint(name, i)] = x
		}
	}
	prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
		var out []*graph.Value
		for i, p := range ps {
			r := primitives.Prepare(p.layer, tr.Input(fmt.Sprint("idx", i), graph.I32, p.tokens, p.k))
			out = append(out, experts(r, tr.Input(fmt.Sprint("x", i), graph.F32, p.tokens, p.hidden), tr.Input(fmt.Sprint("w", i), graph.F32, p.tokens, p.k),
				tr.Input(fmt.Sprint("kernel", i), graph.F32, p.layer.Experts, p.hidden, p.width)))
		}
		return out
	})
	for _, mesh := range []string{"a=2,b=2", "b=3,a=2", "a=0/1-5,b=2", "a=2,b=none/0-4"} {
		for _, tokens := range []string{"a.b", "b.a", "a", "b", ""} {
			s := spread{mesh: mesh, tokens: tokens}
			cfg := s.config(t, prog)
			for i, axis := range []string{"a", "b", "a"} {
				cfg.Place[fmt.Sprint("kernel", i)] = sharding.Split(axis)
			}
			got, err := gomoe.Run(t.Context(), prog, cfg, in.only(prog))
			require.NoError(t, err, s.String())
			for i, p := range ps {
				out, _, _, _ := p.dense()
				same(t, fmt.Sprintf("%s: layer %d", s, i), got[i], out)
			}
		}
	}
}
