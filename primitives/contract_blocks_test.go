package primitives_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// wideLayer returns the plan of one rank of 64: 4096 tokens on each rank, of 7168 bf16
// numbers, 8 of 256 experts for each. rows is that of InBlocks, 0 for none. The experts have
// matrices of `width` columns, or do nothing if it is 0.
func wideLayer(t *testing.T, exchange ep.Exchange, rows, width int, grad bool) *lowering.Plan {
	const ranks, tokens, hidden, experts, k = 64, 64 * 4096, 7168, 256, 8
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.BF16, tokens, hidden)
		w, ids, _ := primitives.Route(primitives.RouteOp{TopK: k}, tr.Input("logits", graph.F32, tokens, experts), nil)
		weights := primitives.ConvertElementType(w, graph.BF16)
		r := primitives.Prepare(primitives.PrepareOp{Experts: experts, Exchange: exchange}, ids)
		wrt := []*graph.Value{x}
		layer := func(r primitives.Prepared, args []*graph.Value) *graph.Value {
			return primitives.Combine(r, primitives.Dispatch(r, args[0]))
		}
		if width > 0 {
			gate, up := tr.Input("kgate", graph.BF16, experts, hidden, width), tr.Input("kup", graph.BF16, experts, hidden, width)
			down := tr.Input("kdown", graph.BF16, experts, width, hidden)
			wrt = append(wrt, gate, up, down)
			layer = func(r primitives.Prepared, args []*graph.Value) *graph.Value {
				rows, rw := primitives.DispatchWeighted(r, args[0], args[1])
				h := primitives.SwiGLU(primitives.GroupedMatMul(r, rows, gate), primitives.GroupedMatMul(r, rows, up))
				return primitives.Combine(r, weighted(primitives.GroupedMatMul(r, h, down), rw))
			}
		}
		var y *graph.Value
		if rows == 0 {
			y = layer(r, []*graph.Value{x, weights})
		} else {
			y = primitives.InBlocks(rows, r, []*graph.Value{x, weights}, layer)
		}
		if !grad {
			return []*graph.Value{y}
		}
		return vjp.Gradients(primitives.ReduceSumUnordered(primitives.Square(y)), wrt...)
	})
	cfg := spread{mesh: "ep=64", tokens: "ep"}.config(t, p)
	plan, err := gomoe.Compile(t.Context(), p, cfg)
	require.NoError(t, err)
	return plan
}

// A layer that takes 56 GiB with room for the worst case takes a size that the user gives:
// dispatch and combine of 4096 tokens of 7168 bf16 numbers on each of 64 ranks, and experts
// of 2048 columns inside, forward and backward.
func TestContractBlocksBoundMemory(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		exchange    ep.Exchange
		rows, width int
		grad        bool
		most, twice float64 // GiB, everything included; twice with rows packed in memory of their own
	}{
		{ep.Rows, 0, 0, false, 17.7, 28.2}, // as many rows as can arrive, and four choices for each
		{ep.Sum, 0, 0, false, 17.7, 17.7},
		{ep.Rows, 16384, 0, false, 1.4, 2},
		{ep.Sum, 16384, 0, false, 1.4, 1.4},
		{ep.Rows, 16384, 0, true, 1.4, 2.1},
		{ep.Sum, 16384, 0, true, 1.4, 1.4},
		{ep.Rows, 16384, 2048, false, 1.7, 2.4},
		{ep.Sum, 16384, 2048, false, 1.7, 2}, // a device has fewer joined products
		{ep.Rows, 0, 2048, false, 18.8, 28.8},
		{ep.Sum, 0, 2048, false, 18.8, 18.8},
		{ep.Rows, 0, 2048, true, 48.5, 58.8}, // 86 with a sum of bf16 that is widened as a whole
		{ep.Rows, 4096, 2048, true, 1.9, 2.8},
		{ep.Sum, 4096, 2048, true, 1.95, 2.7},
		{ep.Sum, 1024, 2048, true, 1.5, 1.7},
	} {
		m := wideLayer(t, c.exchange, c.rows, c.width, c.grad).Report(1).Mem
		got, most := float64(m.Total)/gib, c.most
		if watched(t).Device != nil { // which packs all rows at once, in memory of their own
			most = c.twice * 1.2
		}
		name := fmt.Sprintf("exchange %v, blocks of %d rows, experts of %d columns, gradient %t", c.exchange, c.rows, c.width, c.grad)
		t.Logf("%s: %.2f GiB", name, got)
		if got > most || got < c.most*0.8 {
			t.Errorf("%s: the plan takes %.2f GiB, want at most %.2f and at least 80%% of that", name, got, most)
		}
	}
}

// In blocks a layer has the bits that it has without, on every mesh, forward and backward; the
// gradient of the experts' weights is a sum of blocks, which is exact for these numbers.
func TestContractBlocksKeepBits(t *testing.T) {
	for i, l := range []primitives.PrepareOp{{Experts: 12}, {Experts: 12, Capacity: 5, Align: 4}} {
		p := newProblem(rng(140+i), l, 24, 2)
		out, dx, dw, dk := p.dense()
		for _, exchange := range []ep.Exchange{ep.Rows, ep.Sum} {
			t.Run(fmt.Sprintf("%+v %s", l, exchange), func(t *testing.T) {
				eachSpread(t, func(t *testing.T, s spread) {
					s.exchange = exchange
					for _, rows := range []int{100, 13, 12} {
						in := p.arrays(graph.F32)
						prog := p.blocks(t, s, rows)
						if rows < 24 && s.refusesBlocks(t, prog, 12) {
							continue
						}
						require.Equal(t, rows < 24, strings.Contains(prog.String(), " scan("))
						same(t, "out", s.run(t, prog, in)[0], out)
						grads := s.run(t, pullback(t, prog), in)
						same(t, "gradient of tokens", grads[0], dx)
						same(t, "gradient of weights", grads[1], dw)
						same(t, "gradient of experts", grads[2], dk)
					}
				})
			})
		}
	}
}

// refusesBlocks reports whether blocks of n tokens do not divide among the ranks that split
// them, and then wants an error that says so.
func (s spread) refusesBlocks(t *testing.T, p *graph.Program, n int) bool {
	t.Helper()
	ranks := s.parse(t).Parts(sharding.Split(s.tokens).Dims[0])
	if n%ranks == 0 {
		return false
	}
	_, err := gomoe.Compile(t.Context(), p, s.config(t, p))
	require.ErrorContains(t, err, fmt.Sprintf("do not divide alike over the %d ranks", ranks))
	return true
}

// blocks is program with the layer in blocks.
func (p *problem) blocks(t *testing.T, s spread, rows int) *graph.Program {
	l := p.layer
	l.Axis, l.Exchange = s.axis, s.exchange
	return trace(t, func(tr *graph.Tracer) []*graph.Value {
		// Two leading dimensions, as of a batch of sequences.
		in := func(name string, d graph.DType, n int) *graph.Value {
			return primitives.Reshape(tr.Input(name, d, p.tokens, n), p.tokens, 1, n)
		}
		r := primitives.Prepare(l, in("idx", graph.I32, p.k))
		x, w := in("x", graph.F32, p.hidden), in("w", graph.F32, p.k)
		kernel := tr.Input("kernel", graph.F32, l.Experts, p.hidden, p.width)
		y := primitives.InBlocks(rows, r, []*graph.Value{x, w}, func(r primitives.Prepared, args []*graph.Value) *graph.Value {
			return experts(r, args[0], args[1], kernel)
		})
		return []*graph.Value{primitives.Reshape(y, p.tokens, p.width)}
	})
}

// With numbers that are rounded, the forward pass has the bits of one rank without blocks.
func TestContractBlocksRoundAlike(t *testing.T) {
	const tokens, hidden, width = 24, 16, 20
	l := primitives.PrepareOp{Experts: 12}
	build := func(s spread, d graph.DType, rows int) *graph.Program {
		return trace(t, func(tr *graph.Tracer) []*graph.Value {
			l := l
			l.Axis = s.axis
			w, ids, _ := primitives.Route(primitives.RouteOp{TopK: 3}, tr.Input("logits", graph.F32, tokens, l.Experts), nil)
			up, down := tr.Input("kup", d, l.Experts, hidden, width), tr.Input("kdown", d, l.Experts, width, hidden)
			y := primitives.InBlocks(rows, primitives.Prepare(l, ids), []*graph.Value{tr.Input("x", d, tokens, hidden), primitives.ConvertElementType(w, d)},
				func(r primitives.Prepared, args []*graph.Value) *graph.Value {
					rows, rw := primitives.DispatchWeighted(r, args[0], args[1])
					return primitives.Combine(r, weighted(primitives.GroupedMatMul(r, primitives.SiLU(primitives.GroupedMatMul(r, rows, up)), down), rw))
				})
			return []*graph.Value{y}
		})
	}
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		p := build(spread{}, d, tokens)
		in := arrays{}
		for _, v := range p.In {
			in[v.Name] = uniform(-1, 1)(rng(9), v.Type)
		}
		want := spread{}.run(t, p, in)[0]
		eachSpread(t, func(t *testing.T, s spread) {
			if s.exchange == ep.Sum {
				return
			}
			if prog := build(s, d, 12); !s.refusesBlocks(t, prog, 12) {
				sameBits(t, d.String(), s.run(t, prog, in)[0], want)
			}
		})
	}
}

// A trap concerns the whole batch: no block hides it, and none causes it.
func TestContractBlocksTrap(t *testing.T) {
	p := newProblem(rng(1), primitives.PrepareOp{Experts: 4, Capacity: 5, Trap: true, Label: "first"}, 24, 1)
	s := spread{mesh: "ep=2", tokens: "ep"}
	for _, chosen := range []int{5, 6} {
		p.route(func(t, _ int) int {
			if t < chosen {
				return 1
			}
			return -1
		})
		prog := p.blocks(t, s, 6)
		in := p.arrays(graph.F32)
		delete(in, "ct_0")
		_, err := s.open(t, prog).Step(context.Background(), in)
		if chosen == 5 {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "layer first: ep: expert 1: 6 pairs, want at most its capacity 5")
		}
	}
}

// Mistakes with blocks are errors at the user's line.
func TestContractBlocksMistakes(t *testing.T) {
	build := func(rows int, of int, f func(r primitives.Prepared, args []*graph.Value) *graph.Value) error {
		_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(primitives.PrepareOp{Experts: 4}, tr.Input("idx", graph.I32, of, 2))
			return []*graph.Value{primitives.InBlocks(rows, r, []*graph.Value{tr.Input("x", graph.F32, of, 4)}, f)}
		})
		return err
	}
	layer := func(r primitives.Prepared, args []*graph.Value) *graph.Value {
		return primitives.Combine(r, primitives.Dispatch(r, args[0]))
	}
	require.NoError(t, build(12, 24, layer))
	require.ErrorContains(t, build(0, 24, layer), "contract_blocks_test.go")
	require.ErrorContains(t, build(0, 24, layer), "blocks of 0 rows, want at least 1")
	require.ErrorContains(t, build(12, 23, layer), "23 tokens in blocks of at most 12 rows; want a number of rows of which 23 is a multiple, such as 1 or 23")
	for _, tokens := range []int{12, 24} {
		err := build(12, tokens, func(r primitives.Prepared, args []*graph.Value) *graph.Value {
			return primitives.ReduceSum(args[0], 0)
		})
		require.ErrorContains(t, err, "the result of a block of 12 tokens is f32[4], want [12, columns]")
	}
}
