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
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// Columns of rows may be split as well, into parts that differ: a rank whose rows are shorter finds weights and choices
// where they are, whether choices travel with the rows or are gathered, and through machines. Forward and backward the
// bits are those of one rank.
func TestContractUnevenColumns(t *testing.T) {
	const tokens, k, experts = 12, 2, 4
	on := []spread{{mesh: "dp=2,ep=2", tokens: "ep"}, {mesh: "dp=2,ep=2x2", tokens: "ep"}, {mesh: "dp=2,ep=2", tokens: "ep", exchange: ep.Sum}, {mesh: "dp=2,ep=2"}}
	if *onDevice != "" {
		on = on[:1]
	}
	for i, d := range floatTypes {
		for _, hidden := range []int{1, 3, 5} {
			for _, s := range on {
				for _, capacity := range []int{0, tokens*k - 1} { // the latter could drop one pair, so that choices are gathered
					if *onDevice != "" && hidden == 1 {
						continue
					}
					t.Run(fmt.Sprint(d, " ", hidden, " ", s, " ", capacity), func(t *testing.T) {
						layer := primitives.PrepareOp{Experts: experts, Capacity: capacity, Exchange: s.exchange}
						r := rng(10*i + hidden)
						in := newProblem(r, layer, tokens, k).arrays(d)
						for _, fn := range []func(route primitives.Prepared, x, w *graph.Value) *graph.Value{
							func(route primitives.Prepared, x, w *graph.Value) *graph.Value {
								return primitives.Combine(route, primitives.Dispatch(route, x))
							},
							func(route primitives.Prepared, x, w *graph.Value) *graph.Value {
								rows, weights := primitives.DispatchWeighted(route, x, w)
								return primitives.Combine(route, primitives.Mul(rows, primitives.BroadcastInDim(weights, rows.Type.Shape, 0)))
							},
						} {
							prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
								route := primitives.Prepare(layer, tr.Input("idx", graph.I32, tokens, k))
								return []*graph.Value{fn(route, tr.Input("x", d, tokens, hidden), tr.Input("w", d, tokens, k))}
							})
							for _, p := range []*graph.Program{prog, pullback(t, prog)} {
								sameOnColumns(t, s, p, r, in)
							}
						}
						if d == graph.F32 || d == graph.F64 {
							sameOnColumns(t, s, homeWeights(t, layer, d, tokens, hidden), r, in)
						}
					})
				}
			}
		}
	}
}

// Rows returning in 8 bits have one scale for each block of 128 columns, however the columns are split between
// blocks. They are not cut within a block.
func TestContractColumnsIn8Bits(t *testing.T) {
	const tokens, k, experts = 12, 2, 4
	for _, c := range []struct {
		hidden int
		mesh   string
		err    string
	}{
		{256, "dp=2", ""}, {512, "dp=2", ""},
		{1152, "dp=2 blocks=9", ""}, // 640 and 512
		{128, "dp=2", "wire=f8_e4m3 for rows whose 128 columns [dp] cuts at 64, within a block of 128"},
		{384, "dp=2", "wire=f8_e4m3 for rows whose 384 columns [dp] cuts at 192, within a block of 128"},
	} {
		for _, s := range []spread{{mesh: "ep=2", tokens: "ep"}, {mesh: "ep=2", tokens: "ep", exchange: ep.Sum}, {mesh: "ep=2x2", tokens: "ep", exchange: ep.Sum}, {mesh: "ep=2"}} {
			s.mesh += "," + c.mesh
			layer := primitives.PrepareOp{Experts: experts, Exchange: s.exchange, Wire: graph.F8_E4M3}
			in := newProblem(rng(1), layer, tokens, k).arrays(graph.F32)
			p := trace(t, func(tr *graph.Tracer) []*graph.Value {
				route := primitives.Prepare(layer, tr.Input("idx", graph.I32, tokens, k))
				rows, weights := primitives.DispatchWeighted(route, tr.Input("x", graph.F32, tokens, c.hidden), tr.Input("w", graph.F32, tokens, k))
				return []*graph.Value{primitives.Combine(route, weighted(rows, weights))}
			})
			in["x"], in["w"] = uniform(-1, 1)(rng(2), p.Input("x").Type), uniform(-1, 1)(rng(3), p.Input("w").Type)
			whole, err := onColumns(t, s, p, in, "")
			require.NoError(t, err)
			split, err := onColumns(t, s, p, in, "dp")
			if c.err != "" && s.tokens != "" { // whole tokens do not travel in 8 bits
				require.ErrorContains(t, err, c.err)
				continue
			}
			require.NoError(t, err)
			sameBits(t, fmt.Sprintf("%s, %d columns", s, c.hidden), split[0], whole[0])
		}
	}
}

// homeWeights is a program combining rows with weights. Its result depends on the weights of every rank.
func homeWeights(t *testing.T, layer primitives.PrepareOp, d graph.DType, tokens, hidden int) *graph.Program {
	return trace(t, func(tr *graph.Tracer) []*graph.Value {
		route := primitives.Prepare(layer, tr.Input("idx", graph.I32, tokens, 2))
		x, w := tr.Input("x", d, tokens, hidden), tr.Input("w", d, tokens, 2)
		rows, weights := primitives.DispatchWeighted(route, x, w)
		y := primitives.Combine(route, primitives.Mul(rows, primitives.BroadcastInDim(weights, rows.Type.Shape, 0)))
		g := vjp.Gradients(primitives.ReduceSum(primitives.Mul(y, y), 0, 1), x, w)
		return []*graph.Value{primitives.Mul(g[0], primitives.BroadcastInDim(primitives.ReduceSum(g[1], 1), x.Type.Shape, 0))}
	})
}

// sameOnColumns compares p, splitting the columns of its rows over dp, with one rank.
func sameOnColumns(t *testing.T, s spread, p *graph.Program, r *rand.Rand, in arrays) {
	t.Helper()
	for _, v := range p.In {
		if v.Name != "idx" {
			in[v.Name] = ints(-3, 4)(r, v.Type) // sums over the columns, of which gradients of weights are made, are exact
		}
	}
	var want []array.Array
	for _, columns := range []string{"", "dp"} {
		got, err := onColumns(t, s, p, in, columns)
		require.NoError(t, err)
		if want == nil {
			want = spread{}.run(t, p, in)
		}
		for i := range want {
			sameBits(t, fmt.Sprintf("columns %q: result %d", columns, i), got[i], want[i])
		}
	}
}

// onColumns runs p with the columns of rows split over the axis `columns`.
func onColumns(t *testing.T, s spread, p *graph.Program, in arrays, columns string) ([]array.Array, error) {
	t.Helper()
	cfg := s.config(t, p)
	for _, name := range []string{"x", "ct_0"} {
		if p.Input(name) != nil {
			cfg.Place[name] = sharding.Split(s.tokens, columns)
		}
	}
	cfg.Finite = *onDevice == "" // numbers are found where they lie, and no others
	j, err := gomoe.Open(t.Context(), p, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { require.NoError(t, j.Close()) }()
	return step(t, j, p, in), nil
}
