package primitives_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// The routings of TransformerEngine's tests.
func uniform4(token, choice int) int    { return (token*2 + choice) % 4 }
func nonuniform4(token, choice int) int { return choice * (1 + token%3) }

// The counts are those of TransformerEngine's prepare and overflow tests, added over its
// two data parallel groups, since ours are counts of the whole batch.
func TestContractCounts(t *testing.T) {
	for _, c := range []struct {
		name                            string
		tokens, capacity                int
		route                           func(token, choice int) int
		counts, padded, demand, dropped []int32
	}{
		{"uniform", 8, 0, uniform4, []int32{4, 4, 4, 4}, []int32{16, 16, 16, 16}, []int32{4, 4, 4, 4}, nil},
		{"nonuniform", 8, 0, nonuniform4, []int32{8, 3, 3, 2}, []int32{16, 16, 16, 16}, []int32{8, 3, 3, 2}, nil},
		{"overflow", 96, 32, nonuniform4, []int32{32, 32, 32, 32}, []int32{32, 32, 32, 32}, []int32{96, 32, 32, 32}, nil},
		{"overflow without a capacity", 96, 0, nonuniform4, []int32{96, 32, 32, 32}, []int32{96, 32, 32, 32}, []int32{96, 32, 32, 32}, nil},
		{"an expert without tokens", 8, 0, func(t, k int) int { return 3 * k }, []int32{8, 0, 0, 8}, []int32{16, 0, 0, 16}, []int32{8, 0, 0, 8}, nil},
		{"nothing chosen", 8, 0, func(t, k int) int { return -1 }, []int32{0, 0, 0, 0}, []int32{0, 0, 0, 0}, []int32{0, 0, 0, 0}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := primitives.PrepareOp{Experts: 4, Align: 16, Capacity: c.capacity}
			p := newProblem(rng(1), l, c.tokens, 2).route(c.route)
			eachSpread(t, func(t *testing.T, s spread) {
				l.Axis, l.Exchange = s.axis, s.exchange
				prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
					r := primitives.Prepare(l, tr.Input("idx", graph.I32, c.tokens, 2))
					return []*graph.Value{r.Counts, r.Padded, r.Demand}
				})
				out := s.run(t, prog, p.arrays(graph.F32))
				sameInts(t, "counts", out[0], c.counts)
				sameInts(t, "padded", out[1], c.padded)
				sameInts(t, "demand", out[2], c.demand)
			})
		})
	}
}

// A slot is (expert, place in its queue), in the order of the global batch: the
// same on every mesh, for i32 and i64 indices, with drops, with an expert that
// a token chooses twice and with choices of none.
func TestContractSlots(t *testing.T) {
	for _, d := range []graph.DType{graph.I32, graph.I64} {
		for _, capacity := range []int{0, 1, 3, 100} {
			l := primitives.PrepareOp{Experts: 12, Capacity: capacity, Align: 4}
			p := newProblem(rng(capacity), l, 12, 3)
			p.idx[3], p.idx[4] = p.idx[5], p.idx[5]
			var routing, counts, padded []int32
			var dropped []bool
			demand := make([]int32, 12)
			for _, e := range p.idx {
				slot, full := [2]int32{-1, -1}, false
				if e >= 0 {
					if full = capacity > 0 && int(demand[e]) >= capacity; !full {
						slot = [2]int32{e, demand[e]}
					}
					demand[e]++
				}
				routing, dropped = append(routing, slot[:]...), append(dropped, full)
			}
			for _, n := range demand {
				if capacity > 0 {
					n = min(n, int32(capacity))
				}
				counts, padded = append(counts, n), append(padded, (n+3)/4*4)
			}
			t.Run(fmt.Sprintf("%s capacity %d", d, capacity), func(t *testing.T) {
				eachSpread(t, func(t *testing.T, s spread) {
					l.Axis, l.Exchange = s.axis, s.exchange
					prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
						r := primitives.Prepare(l, tr.Input("idx", d, 12, 3))
						return []*graph.Value{r.Value, r.Dropped, r.Counts, r.Padded, r.Demand}
					})
					out := s.run(t, prog, arrays{"idx": ids(p.idx, 12, 3).As(d)})
					sameInts(t, "routing", out[0], routing)
					if got := array.Data[bool](out[1]); !slices.Equal(got, dropped) {
						t.Errorf("dropped: got %v, want %v", got, dropped)
					}
					sameInts(t, "counts", out[2], counts)
					sameInts(t, "padded", out[3], padded)
					sameInts(t, "demand", out[4], demand)
				})
			})
		}
	}
}

// identity dispatches, weights every row with w and combines.
func identity(l primitives.PrepareOp, d graph.DType, shape []int, k, h int) func(*graph.Tracer) []*graph.Value {
	return func(tr *graph.Tracer) []*graph.Value {
		r := primitives.Prepare(l, tr.Input("idx", graph.I32, append(slices.Clone(shape), k)...))
		rows, rw := primitives.DispatchWeighted(r, tr.Input("x", d, append(slices.Clone(shape), h)...), tr.Input("w", d, append(slices.Clone(shape), k)...))
		return []*graph.Value{primitives.Combine(r, weighted(rows, rw))}
	}
}

// Tokens return unchanged, bit for bit, in every float type: identity
// experts with weights 1/K, for even and skewed routing, with tokens of one and
// of two batch dimensions and for every alignment.
func TestContractIdentityRoundTrip(t *testing.T) {
	const h = 32
	for _, d := range floatTypes {
		for name, route := range map[string]func(token, choice int) int{
			"uniform": uniform4, "nonuniform": nonuniform4,
			"one expert takes all": func(int, int) int { return 2 },
		} {
			for _, c := range []struct {
				shape []int
				align int
			}{{[]int{8}, 16}, {[]int{8, 1}, 0}, {[]int{4, 2}, 3}, {[]int{4, 1, 2}, 1}} {
				t.Run(fmt.Sprintf("%s %s %v", d, name, c.shape), func(t *testing.T) {
					x := array.New(graph.T(d, append(slices.Clone(c.shape), h)...))
					tokens := make([]float64, x.Type.Len())
					for i := range tokens { // TransformerEngine's linspace(.1, .9)
						tokens[i] = 0.1 + 0.8*float64(i)/float64(len(tokens)-1)
					}
					require.NoError(t, x.SetFloat64s(tokens))
					p := newProblem(rng(1), primitives.PrepareOp{Experts: 4}, 8, 2).route(route)
					k := append(slices.Clone(c.shape), 2)
					in := arrays{"x": x, "idx": ids(p.idx, k...), "w": of(graph.T(d, k...), slices.Repeat([]float64{0.5}, 16))}
					for _, s := range meshes() {
						if len(c.shape) > 1 && c.shape[0]%s.parse(t).Parts(sharding.Split(s.tokens).At(0)) != 0 {
							continue // reshape merges no dimensions that are cut unevenly
						}
						prog := trace(t, identity(primitives.PrepareOp{Experts: 4, Align: c.align, Axis: s.axis, Exchange: s.exchange}, d, c.shape, 2, h))
						require.True(t, prog.Out[0].Type.Equal(x.Type), "the result is %s, want %s", prog.Out[0].Type, x.Type)
						sameBits(t, s.String(), s.run(t, prog, in)[0], x)
					}
				})
			}
		}
	}
}

// Without weights, combine returns the sum of a token's choices: K times itself, or
// zeros for a token without choices. Token values are exact in bf16.
func TestContractCombineAddsWithoutWeights(t *testing.T) {
	const tokens, h = 12, 5
	for k := 1; k <= 4; k++ {
		p := newProblem(rng(k), primitives.PrepareOp{Experts: 12}, tokens, k)
		for c := range k {
			p.idx[2*k+c] = -1 // token 2 chooses none
			p.idx[5*k+c] = 7  // token 5 chooses one expert k times
		}
		x, want := make([]float64, tokens*h), make([]float64, tokens*h)
		for i := range x {
			x[i] = float64(i/h+1) / 256
			for c := range k {
				if p.idx[i/h*k+c] >= 0 {
					want[i] += x[i]
				}
			}
		}
		for _, d := range []graph.DType{graph.F32, graph.BF16} {
			t.Run(fmt.Sprintf("%s top %d", d, k), func(t *testing.T) {
				eachSpread(t, func(t *testing.T, s spread) {
					prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
						r := primitives.Prepare(primitives.PrepareOp{Experts: 12, Align: 2, Axis: s.axis, Exchange: s.exchange}, tr.Input("idx", graph.I32, tokens, k))
						return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, tr.Input("x", d, tokens, h)))}
					})
					same(t, "out", s.run(t, prog, arrays{"idx": ids(p.idx, tokens, k), "x": of(graph.T(d, tokens, h), x)})[0], want)
				})
			})
		}
	}
}

// A token's choices are added in order, wherever their experts are and whichever
// rank answers first: 1e8 - 1e8 + 1 is 1 in f32 in this order only.
func TestContractCombineAddsInOrderOfChoices(t *testing.T) {
	const tokens, k = 12, 3
	perms := [][]int{{0, 4, 8}, {0, 8, 4}, {4, 0, 8}, {4, 8, 0}, {8, 0, 4}, {8, 4, 0}}
	p := newProblem(rng(1), primitives.PrepareOp{Experts: 12}, tokens, k).route(func(t, c int) int { return perms[t%6][c] + t/6 })
	in := arrays{
		"idx": ids(p.idx, tokens, k),
		"x":   of(graph.T(graph.F32, tokens, 2), slices.Repeat([]float64{1}, tokens*2)),
		"w":   of(graph.T(graph.F32, tokens, k), slices.Repeat([]float64{1e8, -1e8, 1}, tokens)),
	}
	eachSpread(t, func(t *testing.T, s spread) {
		if s.exchange != ep.Rows {
			return // sums of ranks are in another order
		}
		prog := trace(t, identity(primitives.PrepareOp{Experts: 12, Axis: s.axis}, graph.F32, []int{tokens}, k, 2))
		same(t, "out", s.run(t, prog, in)[0], slices.Repeat([]float64{1}, tokens*2))
	})
}

// A token's choices are added in f32 and rounded once: 1 and two halves of the
// last bit are the next number, but rounded after every addition they are 1.
func TestContractCombineRoundsOnce(t *testing.T) {
	const tokens, h, k = 12, 2, 3
	p := newProblem(rng(1), primitives.PrepareOp{Experts: 12}, tokens, k).route(func(t, c int) int { return (t + 5*c) % 12 })
	for d, half := range map[graph.DType]float64{graph.BF16: 0x1p-8, graph.F16: 0x1p-11} {
		in := arrays{
			"idx": ids(p.idx, tokens, k),
			"x":   of(graph.T(d, tokens, h), slices.Repeat([]float64{1}, tokens*h)),
			"w":   of(graph.T(d, tokens, k), slices.Repeat([]float64{1, half, half}, tokens)),
		}
		t.Run(d.String(), func(t *testing.T) {
			eachSpread(t, func(t *testing.T, s spread) {
				prog := trace(t, identity(primitives.PrepareOp{Experts: 12, Axis: s.axis, Exchange: s.exchange}, d, []int{tokens}, k, h))
				same(t, "out", s.run(t, prog, in)[0], slices.Repeat([]float64{1 + 2*half}, tokens*h))
			})
		})
	}
}

// Tokens of integer types travel too; and rows of no columns.
func TestContractOtherPayloads(t *testing.T) {
	p := newProblem(rng(3), primitives.PrepareOp{Experts: 12}, 12, 1)
	eachSpread(t, func(t *testing.T, s spread) {
		prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(primitives.PrepareOp{Experts: 12, Axis: s.axis, Exchange: s.exchange}, tr.Input("idx", graph.I32, 12, 1))
			rows := primitives.Dispatch(r, tr.Input("x", graph.I32, 12, 3))
			none := primitives.Combine(r, primitives.Dispatch(r, tr.Input("y", graph.BF16, 12, 0)))
			return []*graph.Value{primitives.Combine(r, primitives.ConvertElementType(rows, graph.F32)), none}
		})
		in := arrays{"idx": ids(p.idx, 12, 1), "x": array.New(graph.T(graph.I32, 12, 3)), "y": array.New(graph.T(graph.BF16, 12, 0))}
		want := make([]float64, 36)
		for i := range want {
			array.Data[int32](in["x"])[i] = int32(i - 7)
			if p.idx[i/3] >= 0 {
				want[i] = float64(i - 7)
			}
		}
		out := s.run(t, prog, in)
		same(t, "out", out[0], want)
		require.True(t, out[1].Type.Equal(graph.T(graph.BF16, 12, 0)))
	})
}

// The whole layer is compared with loops over tokens and choices, for random routings,
// alignments and capacities on every mesh. Results and all gradients are exact.
func TestContractAgainstDenseReference(t *testing.T) {
	for seed := range 6 {
		for _, experts := range []int{12, 6} {
			r := rng(seed)
			l := primitives.PrepareOp{Experts: experts, Align: []int{0, 1, 2, 3, 8}[r.IntN(5)], Capacity: []int{0, 0, 1, 2, 5}[r.IntN(5)]}
			p := newProblem(r, l, 12, 1+r.IntN(3))
			out, dx, dw, dk := p.dense()
			for _, d := range []graph.DType{graph.F32, graph.BF16} {
				t.Run(fmt.Sprintf("%d %s %+v", seed, d, l), func(t *testing.T) {
					eachSpread(t, func(t *testing.T, s spread) {
						prog := p.program(t, s, d)
						in := p.arrays(d)
						same(t, "out", s.run(t, prog, in)[0], out)
						got := s.run(t, pullback(t, prog), in)
						same(t, "gradient of tokens", got[0], dx)
						same(t, "gradient of weights", got[1], dw)
						same(t, "gradient of experts", got[2], dk)
					})
				})
			}
		}
	}
}
