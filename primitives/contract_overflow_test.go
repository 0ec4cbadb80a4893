package primitives_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// Pairs are dropped in the order of tokens and choices over the whole batch. A token
// has the sum of the choices that were kept, every gradient of a dropped pair is 0, and
// demand counts what was chosen, not what was kept. TransformerEngine leaves open which
// pairs are dropped; here they are known.
func TestContractDrops(t *testing.T) {
	const tokens = 96 // TransformerEngine's overflow test: 48 per data parallel group
	l := primitives.PrepareOp{Experts: 4, Capacity: 32, Align: 16}
	p := newProblem(rng(1), l, tokens, 2).route(nonuniform4)
	kept := p.kept()
	out, dx, dw, dk := p.dense()
	dropped := 0
	for i, k := range kept {
		if !k {
			dropped++
			require.Equal(t, 0.0, dw[i])
		}
	}
	require.Equal(t, 64, dropped) // 96 first choices for expert 0, which takes 32
	for _, d := range []graph.DType{graph.F32, graph.F64} {
		t.Run(d.String(), func(t *testing.T) {
			eachSpread(t, func(t *testing.T, s spread) {
				l := l
				l.Axis, l.Exchange = s.axis, s.exchange
				prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
					r := primitives.Prepare(l, tr.Input("idx", graph.I32, tokens, 2))
					out := experts(r, tr.Input("x", d, tokens, 4), tr.Input("w", d, tokens, 2), tr.Input("kernel", d, 4, 4, 3))
					return []*graph.Value{out, r.Dropped, r.Demand, r.Counts}
				})
				in := p.arrays(d)
				got := s.run(t, prog, in)
				same(t, "out", got[0], out)
				for i, x := range array.Data[bool](got[1]) {
					if x == kept[i] {
						t.Fatalf("pair %d: dropped %v, kept %v", i, x, kept[i])
					}
				}
				sameInts(t, "demand", got[2], []int32{96, 32, 32, 32})
				sameInts(t, "counts", got[3], []int32{32, 32, 32, 32})
				grads := s.run(t, pullback(t, p.program(t, s, d)), in)
				same(t, "gradient of tokens", grads[0], dx)
				same(t, "gradient of weights", grads[1], dw)
				same(t, "gradient of experts", grads[2], dk)
			})
		})
	}
}

// A token with all choices dropped gives zeros and gets no gradient. Ranks without
// any row left take part in all exchanges.
func TestContractTokensDroppedWhole(t *testing.T) {
	l := primitives.PrepareOp{Experts: 12, Capacity: 1}
	p := newProblem(rng(2), l, 12, 2).route(func(int, int) int { return 5 })
	out, dx, dw, dk := p.dense()
	for i, x := range append(out[3:], dx[4:]...) {
		require.Equal(t, 0.0, x, i)
	}
	eachSpread(t, func(t *testing.T, s spread) {
		in := p.arrays(graph.BF16)
		same(t, "out", s.run(t, p.program(t, s, graph.BF16), in)[0], out)
		got := s.run(t, pullback(t, p.program(t, s, graph.BF16)), in)
		same(t, "gradient of tokens", got[0], dx)
		same(t, "gradient of weights", got[1], dw)
		same(t, "gradient of experts", got[2], dk)
	})
}

// A layer that traps gives one error that names the layer, the expert, its need
// and its capacity, before any token moves; the session can be used again at
// once, whatever the order in which its ranks found out.
func TestContractTrap(t *testing.T) {
	l := primitives.PrepareOp{Experts: 12, Capacity: 6, Trap: true, Label: "block 3"}
	fits := newProblem(rng(3), l, 12, 2).route(func(t, k int) int { return (t*2 + k) % 12 })
	over := newProblem(rng(3), l, 12, 2).route(func(t, k int) int { return 7 * (1 - k) })
	out, _, _, _ := fits.dense()
	eachSpread(t, func(t *testing.T, s spread) {
		prog := fits.program(t, s, graph.F32)
		j := s.open(t, prog)
		plan := j.Plan()
		for range 40 {
			_, err := j.Step(context.Background(), over.arrays(graph.F32).only(prog))
			require.ErrorContains(t, err, "layer block 3: ep: expert 0: 12 pairs, want at most its capacity 6; raise the capacity to 12, or drop the pairs that do not fit")
			require.ErrorContains(t, err, "contract_harness_test.go:")
			var oe *ep.OverflowError
			var agreed *exec.AgreedError
			require.True(t, errors.As(err, &oe) && errors.As(err, &agreed), "%v", err)
			require.Equal(t, ep.OverflowError{Expert: 0, Need: 12, Capacity: 6}, *oe)
			same(t, "the next step", step(t, j, prog, fits.arrays(graph.F32))[0], out)
		}
		trap := -1
		for i, in := range plan.Instrs {
			if in.Name() == "ep_prepare" {
				trap = i
			}
			if in.Name() == "all_to_all" && trap < 0 {
				t.Errorf("instruction %d is an all_to_all before the capacity is checked\n%s", i, plan)
			}
		}
		require.GreaterOrEqual(t, trap, 0)
	})
}

// only returns the arrays that p has inputs for.
func (a arrays) only(p *graph.Program) arrays {
	out := arrays{}
	for _, v := range p.In {
		out[v.Name] = a[v.Name]
	}
	return out
}

// Every rank finds the same overflow, although each counts only its own tokens. So the
// error is the same whichever rank returns it.
func TestContractTrapIsTheSameOnEveryRank(t *testing.T) {
	l := primitives.PrepareOp{Experts: 12, Capacity: 2, Trap: true}
	p := newProblem(rng(3), l, 12, 3)
	texts := map[string]bool{}
	eachSpread(t, func(t *testing.T, s spread) {
		prog := p.program(t, s, graph.F32)
		j := s.open(t, prog)
		for range 10 {
			_, err := j.Step(context.Background(), p.arrays(graph.F32).only(prog))
			require.Error(t, err)
			_, text, ok := strings.Cut(err.Error(), "ep: expert")
			require.True(t, ok, "%v", err)
			texts[text] = true
		}
	})
	require.Len(t, texts, 1)
}

// A capacity factor is relative to an even share, rounded up.
func TestContractCapacityFactor(t *testing.T) {
	for _, c := range []struct {
		tokens, k, experts int
		factor             float64
		want               int
	}{{96, 2, 4, 1, 48}, {96, 2, 4, 1.25, 60}, {7, 2, 4, 1, 4}, {8, 2, 4, 0.5, 2}, {1, 1, 64, 1, 1}, {64, 8, 64, 2, 16}} {
		got := primitives.PrepareOp{Experts: c.experts}.CapacityFor(c.tokens, c.k, c.factor)
		if got != c.want {
			t.Errorf("%+v: got %d", c, got)
		}
	}
	// Even routing with factor 1 drops nothing and does not trap.
	l := primitives.PrepareOp{Experts: 4, Trap: true}
	l.Capacity = l.CapacityFor(8, 2, 1)
	p := newProblem(rng(1), l, 8, 2).route(uniform4)
	out, _, _, _ := p.dense()
	eachSpread(t, func(t *testing.T, s spread) {
		same(t, "out", s.run(t, p.program(t, s, graph.F32), p.arrays(graph.F32))[0], out)
	})
}

// With a capacity, the room for rows is smaller than for all pairs.
func TestContractCapacityBoundsMemory(t *testing.T) {
	dispatched := func(capacity, align int) string {
		p := newProblem(rng(1), primitives.PrepareOp{Experts: 4, Capacity: capacity, Align: align}, 96, 2)
		s := spread{mesh: "dp=2,ep=2", tokens: "dp.ep"}
		prog := p.program(t, s, graph.F32)
		plan, err := gomoe.Compile(t.Context(), prog, s.config(t, prog))
		require.NoError(t, err)
		for _, in := range plan.Instrs {
			if strings.HasPrefix(in.Name(), "grouped_matmul") {
				return fmt.Sprint(plan.Bufs[in.Out[0]].Type)
			}
		}
		return "no grouped_matmul"
	}
	for _, c := range []struct {
		capacity, align int
		want            string
	}{
		{0, 0, "f32[96,3]"},   // every pair of the two ranks
		{0, 16, "f32[112,3]"}, // 94 pairs to one expert fill 80+16, the other two 16 more... see ep.RankRows
		{16, 0, "f32[32,3]"},  // two experts of 16
		{20, 16, "f32[64,3]"}, // two experts of 32
	} {
		if got := dispatched(c.capacity, c.align); got != c.want {
			t.Errorf("capacity %d, align %d: rows are %s, want %s", c.capacity, c.align, got, c.want)
		}
	}
}
