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
	"github.com/gomoe/gomoe/vjp"
)

// uneven are numbers of tokens and of experts that their ranks do not divide: some ranks have
// one more than others, and some have none.
var uneven = []struct {
	tokens, experts int
	spreads         []spread
}{
	{7, 6, []spread{{mesh: "ep=4", tokens: "ep"}, {mesh: "ep=4"}, {mesh: "dp=2,ep=2", tokens: "dp.ep"}, {mesh: "dp=2,ep=2", tokens: "ep.dp"}}},
	{1, 6, []spread{{mesh: "ep=4", tokens: "ep"}, {mesh: "dp=2,ep=4", tokens: "dp.ep"}}},
	{0, 3, []spread{{mesh: "ep=4", tokens: "ep"}}},
	{5, 3, []spread{{mesh: "ep=4", tokens: "ep"}, {mesh: "ep=4"}, {mesh: "a=2,b=3", tokens: "a.b", axis: "a"}, {mesh: "a=2,b=3", tokens: "b", axis: "a"}}},
	{7, 1, []spread{{mesh: "ep=2", tokens: "ep"}}},
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
		in := p.arrays(graph.F64) // small integers, whose sums are exact in any order
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

// Each rank has memory for its own part: the plan says what each has.
func TestContractUnevenParts(t *testing.T) {
	p := newProblem(rng(1), primitives.PrepareOp{Experts: 6}, 7, 3)
	s := spread{mesh: "ep=4", tokens: "ep"}
	prog := p.program(t, s, graph.F32)
	plan, err := gomoe.Compile(prog, s.config(t, prog))
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
