package primitives_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// Where choices travel with the rows, a layer is two exchanges, and its gradient has none of
// choices: those of the rows' exchange serve both passes.
func TestContractInlineExchanges(t *testing.T) {
	const tokens, h, f, e, k = 8, 6, 3, 4, 2
	for _, c := range []struct {
		name     string
		s        spread
		op       primitives.PrepareOp
		fwd, bwd []string
	}{
		// A segment of 2 rows of 6 values, 2 weights, 2 choices and a number.
		{"dp=2,ep=2", spread{mesh: "dp=2,ep=2", tokens: "dp.ep"}, primitives.PrepareOp{},
			[]string{"all_to_all ep 88 B ep_dispatch", "all_to_all ep 48 B ep_combine"},
			[]string{"all_to_all ep 88 B ep_dispatch", "all_to_all ep 48 B ep_dispatch", "all_sum dp 144 B place_like", "all_to_all ep 112 B ep_combine"}},
		{"ep=4", spread{mesh: "ep=4", tokens: "ep"}, primitives.PrepareOp{Exchange: ep.Sum},
			[]string{"all_to_all ep 264 B ep_dispatch", "all_to_all ep 48 B ep_combine"},
			[]string{"all_to_all ep 264 B ep_dispatch", "all_to_all ep 48 B ep_dispatch", "all_to_all ep 128 B ep_combine"}},
		{"capacities that never drop", spread{mesh: "ep=4", tokens: "ep"}, primitives.PrepareOp{Capacity: 16, Receive: 8},
			[]string{"all_to_all ep 264 B ep_dispatch", "all_to_all ep 48 B ep_combine"}, nil},
		{"a capacity", spread{mesh: "ep=4", tokens: "ep"}, primitives.PrepareOp{Capacity: 15},
			[]string{"all_gather ep 16 B ep_prepare", "all_to_all ep 128 B ep_dispatch", "all_to_all ep 48 B ep_combine"}, nil},
		{"a receive capacity", spread{mesh: "ep=4", tokens: "ep"}, primitives.PrepareOp{Receive: 7},
			[]string{"all_gather ep 16 B ep_prepare", "all_to_all ep 128 B ep_dispatch", "all_to_all ep 48 B ep_combine"}, nil},
		{"nothing travels", spread{mesh: "dp=4", tokens: "dp"}, primitives.PrepareOp{}, []string{}, nil},
		{"a capacity where nothing travels", spread{mesh: "dp=4", tokens: "dp"}, primitives.PrepareOp{Capacity: 15},
			[]string{"all_gather dp 16 B ep_prepare"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
				op := c.op
				op.Experts = e
				r := primitives.Prepare(op, tr.Input("idx", graph.I32, tokens, k))
				return []*graph.Value{experts(r, tr.Input("x", graph.F32, tokens, h), tr.Input("w", graph.F32, tokens, k), tr.Input("kernel", graph.F32, e, h, f))}
			})
			plan, err := gomoe.Compile(t.Context(), prog, c.s.config(t, prog))
			require.NoError(t, err)
			multiset(t, "forward", exchanges(plan), c.fwd)
			if c.bwd == nil {
				return
			}
			back := pullback(t, prog)
			plan, err = gomoe.Compile(t.Context(), back, c.s.config(t, back))
			require.NoError(t, err)
			multiset(t, "backward", exchanges(plan), c.bwd)
		})
	}
	// Another use of the routing has the choices of all ranks.
	for _, more := range []func(r primitives.Prepared) *graph.Value{
		func(r primitives.Prepared) *graph.Value { return r.Value },
		func(r primitives.Prepared) *graph.Value { return primitives.Add(r.Value, r.Value) },
	} {
		s := spread{mesh: "ep=4", tokens: "ep"}
		prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(primitives.PrepareOp{Experts: e}, tr.Input("idx", graph.I32, tokens, k))
			return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, tr.Input("x", graph.F32, tokens, h))), more(r)}
		})
		plan, err := gomoe.Compile(t.Context(), prog, s.config(t, prog))
		require.NoError(t, err)
		require.Contains(t, exchanges(plan), "all_gather ep 16 B ep_prepare")
	}
}

// Choices travel with the rows where that takes no more bytes than rows alone could, or little
// more, and no capacity can drop a pair. Otherwise they are gathered before.
func TestContractWhereChoicesTravel(t *testing.T) {
	for _, c := range []struct {
		mesh             string
		tokens, k, width int
		op               primitives.PrepareOp
		dispatch         int64 // bytes
		gathers          bool
	}{
		// 32 tokens per rank, 8 choices, 256 bytes per row: 16384 bytes where choices are gathered.
		{"ep=2", 64, 8, 128, primitives.PrepareOp{}, 32 * (256 + 36), false},
		{"ep=2", 64, 8, 128, primitives.PrepareOp{Capacity: 511}, 16384, true},
		// A token has at most as many experts as choices, and here these differ.
		{"ep=2", 64, 8, 128, primitives.PrepareOp{Capacity: 64, Distinct: true}, 32 * (256 + 36), false},
		{"ep=2", 64, 8, 128, primitives.PrepareOp{Capacity: 63, Distinct: true}, 16384, true},
		// A rank sends 7 rows of a token, and 8 or 2 at most otherwise.
		{"ep=8", 1024, 8, 4096, primitives.PrepareOp{}, 7 * 128 * (8192 + 36), false},
		{"ep=8", 1024, 2, 4096, primitives.PrepareOp{}, 2 * 128 * 8192, true},
		// 16384 bytes more, and above.
		{"ep=4", 4 * 64, 2, 110, primitives.PrepareOp{}, 3 * 64 * (220 + 12), false},
		{"ep=4", 4 * 64, 2, 111, primitives.PrepareOp{}, 2 * 64 * 222, true},
		// Few tokens.
		{"ep=8", 8, 2, 512, primitives.PrepareOp{}, 7 * (1024 + 12), false},
	} {
		s := spread{mesh: c.mesh, tokens: "ep"}
		prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
			op := c.op
			op.Experts = 64
			r := primitives.Prepare(op, tr.Input("idx", graph.I32, c.tokens, c.k))
			return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, tr.Input("x", graph.BF16, c.tokens, c.width)))}
		})
		plan, err := gomoe.Compile(t.Context(), prog, s.config(t, prog))
		require.NoError(t, err)
		want := []string{fmt.Sprintf("all_to_all ep %d B ep_dispatch", c.dispatch)}
		if c.gathers {
			want = append(want, fmt.Sprintf("all_gather ep %d B ep_prepare", c.tokens/plan.Mesh.Ranks()*c.k*4))
		}
		got := slices.DeleteFunc(exchanges(plan), func(x string) bool { return strings.HasSuffix(x, "ep_combine") })
		multiset(t, fmt.Sprintf("%+v", c), got, want)
	}
}

// A layer sending choices with its rows has the bits of a layer gathering its choices
// before, on every mesh, with any number of tokens, with both exchanges, forward and backward,
// and with rows of all types.
func TestContractInlineBits(t *testing.T) {
	for _, tokens := range []int{24, 7, 1} {
		t.Run(fmt.Sprint(tokens), func(t *testing.T) {
			eachSpread(t, func(t *testing.T, s spread) {
				r := rng(tokens)
				d := floatTypes[(tokens+len(s.mesh))%len(floatTypes)]
				for _, l := range []primitives.PrepareOp{{Experts: 12}, {Experts: 5, Align: 4}} {
					var want []array.Array
					in := arrays{}
					for _, inline := range []bool{false, true} {
						l.Axis, l.Exchange, l.Capacity = s.axis, s.exchange, 0
						if len(strings.Split(s.tokens, ".")) == 1 && tokens == 7 {
							l.Exchange = ep.Sum
						}
						if !inline {
							l.Capacity = 3*tokens - 1 // which could drop one pair
						}
						p := newProblem(r, l, tokens, 3)
						prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
							r := primitives.Prepare(l, tr.Input("idx", graph.I32, tokens, 3))
							return []*graph.Value{experts(r, tr.Input("x", d, tokens, 4), tr.Input("w", d, tokens, 3), tr.Input("kernel", d, l.Experts, 4, 3))}
						})
						plan, err := gomoe.Compile(t.Context(), prog, s.config(t, prog))
						require.NoError(t, err)
						if text := plan.String(); strings.Contains(text, "all_to_all") {
							require.Equal(t, inline && !strings.Contains(s.mesh, "ep=2x2"), strings.Contains(text, "ep_pack_inline"))
						}
						back := pullback(t, prog)
						if !inline {
							in = p.arrays(d)
							for _, name := range []string{"x", "w", "kernel", "ct_0"} {
								in[name] = uniform(-1, 1)(r, in[name].Type)
							}
							want = slices.Concat(s.run(t, prog, in), s.run(t, back, in))
							continue
						}
						for i, got := range slices.Concat(s.run(t, prog, in), s.run(t, back, in)) {
							sameBits(t, fmt.Sprintf("%+v: result %d", l, i), got, want[i])
						}
					}
				}
			})
		})
	}
}

// Choices travel with rows of 8 bits too, in blocks of a batch, and for choices that do not
// exist the error is that of one rank.
func TestContractInlineRowsOfAllKinds(t *testing.T) {
	const tokens, hidden = 24, 128
	s := spread{mesh: "ep=3", tokens: "ep"}
	r := rng(9)
	in := arrays{"idx": newProblem(r, primitives.PrepareOp{Experts: 6}, tokens, 2).arrays(graph.F32)["idx"], "x": uniform(-1, 1)(r, graph.T(graph.F32, tokens, hidden))}
	for name, layer := range map[string]func(r primitives.Prepared, x *graph.Value) *graph.Value{
		"f8": func(r primitives.Prepared, x *graph.Value) *graph.Value {
			return primitives.Combine(r, primitives.DispatchF8(r, x, graph.F8_E4M3))
		},
		"blocks": func(r primitives.Prepared, x *graph.Value) *graph.Value {
			return primitives.InBlocks(12, r, []*graph.Value{x}, func(r primitives.Prepared, a []*graph.Value) *graph.Value {
				return primitives.Combine(r, primitives.Dispatch(r, a[0]))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var want array.Array
			for _, inline := range []bool{false, true} {
				prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
					l := primitives.PrepareOp{Experts: 6}
					if !inline {
						l.Capacity = 2*tokens - 1 // which could drop one pair
					}
					r := primitives.Prepare(l, tr.Input("idx", graph.I32, tokens, 2))
					return []*graph.Value{layer(r, tr.Input("x", graph.F32, tokens, hidden))}
				})
				got := s.run(t, prog, in)[0]
				if inline {
					sameBits(t, "out", got, want)
				}
				want = got
			}
		})
	}
	prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
		r := primitives.Prepare(primitives.PrepareOp{Experts: 6}, tr.Input("idx", graph.I32, tokens, 2))
		return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, tr.Input("x", graph.F32, tokens, hidden)))}
	})
	bad := slices.Repeat([]int32{0}, 2*tokens)
	bad[2*20+1] = 6
	in["idx"] = ids(bad, tokens, 2)
	_, err := s.open(t, prog).Step(context.Background(), in)
	require.ErrorContains(t, err, "ep: token 20, choice 1: expert 6, want 0 to 5, or -1 for none")
	op := primitives.DispatchOp{Experts: 6}
	any := trace(t, func(tr *graph.Tracer) []*graph.Value {
		r := tr.Input("idx", graph.I32, tokens, 1, 2)
		return []*graph.Value{graph.Apply1(primitives.CombineOp(op), graph.Apply1(op, tr.Input("x", graph.F32, tokens, hidden), r), r)}
	})
	same(t, "a routing from elsewhere", s.run(t, any, arrays{"idx": ids(slices.Repeat([]int32{4, 0}, tokens), tokens, 1, 2), "x": in["x"]})[0], in["x"].Float64s())
	bad[2*20] = 6
	_, err = s.open(t, any).Step(context.Background(), arrays{"idx": ids(bad, tokens, 1, 2), "x": in["x"]})
	require.ErrorContains(t, err, "names expert 6, want 0 to 5")
}
