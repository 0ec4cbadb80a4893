package gomoe_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
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

// expertLoss is the loss of a layer of experts; blocks is that of primitives.InBlocks, 0 for none. The
// experts have columns of their own that are added to each row, and copies if copies is above 0.
func expertLoss(tokens, hidden, width, experts, k, copies int, d graph.DType, exchange ep.Exchange, blocks int) (*graph.Program, error) {
	return graph.Trace("layer", func(t *graph.Tracer) []*graph.Value {
		x, logits := t.Input("x", d, tokens, hidden), t.Input("logits", graph.F32, tokens, experts)
		gate, up := t.Input("gate", d, experts, hidden, width), t.Input("up", d, experts, hidden, width)
		down := t.Input("down", d, experts, width, hidden)
		var list *graph.Value
		if copies > 0 {
			list = t.Input("copies", graph.I32, copies)
		}
		weights, ids, _ := primitives.Route(primitives.RouteOp{TopK: k}, logits, nil)
		r := primitives.Prepare(primitives.PrepareOp{Experts: experts, Exchange: exchange}, ids)
		layer := func(r primitives.Prepared, args []*graph.Value) *graph.Value {
			gate, up, down := gate, up, down
			if copies > 0 {
				r = primitives.Copies(r, list)
				gate, up, down = primitives.Gather(gate, list, 0), primitives.Gather(up, list, 0), primitives.Gather(down, list, 0)
			}
			rows, w := primitives.DispatchWeighted(r, args[0], args[1])
			// The operations with a number of rows in their parameters, which a choice of the capacity changes.
			one := primitives.Full(t, 1, d, rows.Dim(0), width)
			h := primitives.Add(one, primitives.SwiGLU(primitives.GroupedMatMul(r, rows, gate), primitives.GroupedMatMul(r, rows, up)))
			h = primitives.Reshape(primitives.SliceInDim(primitives.Reshape(h, rows.Dim(0), width, 1), 2, 0, 1), rows.Dim(0), width)
			o := primitives.GroupedMatMul(r, h, down)
			return primitives.Combine(r, primitives.Mul(o, primitives.BroadcastInDim(w, o.Type.Shape, 0)))
		}
		args := []*graph.Value{x, primitives.ConvertElementType(weights, d)}
		y := (*graph.Value)(nil)
		if blocks > 0 {
			y = primitives.InBlocks(blocks, r, args, layer)
		} else {
			y = layer(r, args)
		}
		return []*graph.Value{primitives.ReduceSumUnordered(primitives.Square(y)), y}
	})
}

// choiceConfig splits the tokens and the experts of expertLoss.
func choiceConfig(t *testing.T, mesh, tokens string) gomoe.Config {
	m, err := sharding.ParseMesh(mesh)
	require.NoError(t, err)
	x, err := sharding.ParseSpec(tokens)
	require.NoError(t, err)
	w := sharding.Split("ep")
	return gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": x, "logits": x, "gate": w, "up": w, "down": w}}
}

// What Choice.Program makes of a program computes the same: with the same bits, unless sums
// travel, or rows in 8 bits.
func TestChoiceComputesTheSame(t *testing.T) {
	const tokens, hidden, width, experts, k = 32, 128, 20, 6, 3
	for _, copies := range []int{0, 8} {
		p, err := expertLoss(tokens, hidden, width, experts, k, copies, graph.F32, ep.Rows, 0)
		require.NoError(t, err)
		in := map[string]array.Array{}
		gen := rand.New(rand.NewPCG(1, 2))
		for _, v := range p.In {
			in[v.Name] = array.New(v.Type)
			for i := range v.Type.Len() {
				if v.Name == "copies" {
					array.Data[int32](in[v.Name])[i] = int32(i % experts)
				} else {
					array.Data[float32](in[v.Name])[i] = float32(gen.Float64() - 0.5)
				}
			}
		}
		wrt := []string{"x", "gate", "down"}
		run := func(c gomoe.Choice, cfg gomoe.Config) []array.Array {
			q, err := c.Program(p)
			require.NoError(t, err, c)
			q, err = vjp.Grad(q, wrt...)
			require.NoError(t, err, c)
			out, err := gomoe.Run(context.Background(), q, cfg, in)
			require.NoError(t, err, c)
			return out
		}
		want := run(gomoe.Choice{}, gomoe.Config{})
		for _, at := range [][2]string{{"ep=2", "ep"}, {"dp=2,ep=2", "dp.ep"}, {"ep=2", "_"}, {"", "_"}} {
			cfg := choiceConfig(t, at[0], at[1])
			if copies > 0 { // of weights that every rank has
				cfg.Place = map[string]sharding.Spec{"x": cfg.Place["x"], "logits": cfg.Place["x"]}
			}
			all, err := gomoe.Choices(t.Context(), p, cfg, wrt...)
			require.NoError(t, err)
			for _, c := range all {
				require.Empty(t, c.Err, c.Choice)
				if c.Receive > 0 {
					continue // which drops
				}
				got, most := run(c.Choice, cfg), 0.0
				if c.Changes != "" {
					most = 1e-5
				}
				if c.Choice.Wire.Size() < 4 && c.Wire != graph.NoDType {
					most = 0.1
				}
				name := fmt.Sprintf("%d copies, mesh %q, tokens %q, %v", copies, at[0], at[1], c.Choice)
				if diff, i := array.MaxDiff(got[1], want[1]); diff > most || math.IsNaN(diff) {
					t.Errorf("%s: element %d of the result differs by %g, want at most %g", name, i, diff, most)
				}
				for i, w := range wrt {
					if diff, at := array.MaxDiff(got[2+i], want[2+i]); diff > max(40*most, 1e-4) || math.IsNaN(diff) {
						t.Errorf("%s: element %d of the gradient of %s differs by %g", name, at, w, diff)
					}
				}
			}
		}
	}
}

// For 4096 tokens of 7168 bf16 numbers on each of 64 ranks, 8 of 256 experts for each, there are
// choices that drop nothing and take less than 4 GiB, and their sizes are those of a
// program that is written so.
func TestChoicesOfWideLayer(t *testing.T) {
	const tokens = 64 * 4096
	build := func(exchange ep.Exchange, blocks int) *graph.Program {
		p, err := expertLoss(tokens, 7168, 2048, 256, 8, 0, graph.BF16, exchange, blocks)
		require.NoError(t, err)
		return p
	}
	cfg := choiceConfig(t, "ep=64", "ep")
	for _, wrt := range [][]string{nil, {"x", "gate", "up", "down"}} {
		all, err := gomoe.Choices(t.Context(), build(ep.Rows, 0), cfg, wrt...)
		require.NoError(t, err)
		require.Greater(t, all[0].Total, int64(16)<<30, "as it is written")
		found := false
		for _, c := range all {
			require.Empty(t, c.Err)
			require.LessOrEqual(t, c.Peak, c.Total)
			require.LessOrEqual(t, c.Arrive, c.Arena)
			require.Equal(t, int64(c.Rows*(7168+8)*2), c.Arrive)
			if c.Choice == (gomoe.Choice{Exchange: ep.Sum, Blocks: 4096}) {
				found = true
				require.Less(t, c.Total, int64(4)<<30)
				require.Equal(t, 4096, c.Rows)
				require.Equal(t, 4*4096, c.Pairs)
			}
			if c.Receive+int(c.Choice.Wire) > 0 || c.Remat != "" {
				continue
			}
			p := build(c.Exchange, c.Blocks)
			if wrt != nil {
				p, err = vjp.Grad(p, wrt...)
				require.NoError(t, err)
			}
			plan, err := gomoe.Compile(t.Context(), p, cfg)
			require.NoError(t, err)
			m := plan.Report(1).Mem
			require.Equal(t, []int64{m.Arena, m.Peak.Live}, []int64{c.Arena, c.Peak}, "%v", c.Choice)
		}
		require.True(t, found, "no sums in blocks of 4096 rows among %v", all)
	}
}

// Rows that a rank accepts, and blocks, are those of the plan; what has no plan says why.
func TestChoicesMistakes(t *testing.T) {
	p, err := expertLoss(24, 8, 8, 4, 2, 0, graph.F32, ep.Rows, 0)
	require.NoError(t, err)
	g, err := vjp.Grad(p, "x")
	require.NoError(t, err)
	_, err = gomoe.Choice{Blocks: 6}.Program(g)
	require.ErrorContains(t, err, "exchange=rows blocks=6: the rows of this routing are dispatched 2 times and combined 2 times, as in a gradient; choose blocks and remat before the gradient is taken")
	require.ErrorContains(t, err, "choices_test.go:")
	all, err := gomoe.Choices(t.Context(), g, choiceConfig(t, "ep=2", "ep"))
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, gomoe.WriteChoices(&text, all))
	require.Contains(t, text.String(), "no plan, see below")
	require.Contains(t, text.String(), "exchange=rows blocks=6: choices_test.go:")
	require.NotContains(t, text.String(), "remat=")
	for _, c := range all {
		require.Equal(t, c.Blocks == 0, c.Err == "", "%v", c)
	}
	_, err = gomoe.Choice{Remat: "some"}.Program(p)
	require.ErrorContains(t, err, `remat "some", want all, products or exchanges`)
	_, err = gomoe.Choice{Wire: graph.F8_E4M3}.Program(p)
	require.ErrorContains(t, err, "want a multiple of 128")
	plain, err := graph.Trace("plain", func(t *graph.Tracer) []*graph.Value {
		return []*graph.Value{primitives.ReduceSum(t.Input("x", graph.F32, 4))}
	})
	require.NoError(t, err)
	_, err = gomoe.Choices(t.Context(), plain, gomoe.Config{})
	require.ErrorContains(t, err, "program plain has no expert layer")
	escapes, err := graph.Trace("escapes", func(t *graph.Tracer) []*graph.Value {
		r := primitives.Prepare(primitives.PrepareOp{Experts: 4}, t.Input("ids", graph.I32, 8, 2))
		rows := primitives.Dispatch(r, t.Input("x", graph.F32, 8, 4))
		return []*graph.Value{primitives.Combine(r, rows), rows}
	})
	require.NoError(t, err)
	_, err = gomoe.Choice{Blocks: 2}.Program(escapes)
	require.ErrorContains(t, err, "rows in the order of the experts are a result")
}

// Layers in loops and in calls are found, too.
func TestChoiceInLoops(t *testing.T) {
	const layers, tokens, hidden, experts = 3, 8, 4, 4
	p, err := graph.Trace("deep", func(t *graph.Tracer) []*graph.Value {
		x, w := t.Input("x", graph.F32, tokens, hidden), t.Input("w", graph.F32, layers, experts, hidden, hidden)
		ids := t.Input("ids", graph.I32, layers, tokens, 2)
		out, _ := graph.Scan(graph.ScanParams{}, []*graph.Value{x}, []*graph.Value{w, ids}, func(c, each []*graph.Value) (next, y []*graph.Value) {
			return vjp.Remat("one", func(_ *graph.Tracer, a []*graph.Value) []*graph.Value {
				r := primitives.Prepare(primitives.PrepareOp{Experts: experts}, a[2])
				return []*graph.Value{primitives.Tanh(primitives.Combine(r, primitives.GroupedMatMul(r, primitives.Dispatch(r, a[0]), a[1])))}
			}, c[0], each[0], each[1]), nil
		})
		return out
	})
	require.NoError(t, err)
	gen, in := rand.New(rand.NewPCG(3, 4)), map[string]array.Array{}
	for _, v := range p.In {
		in[v.Name] = array.New(v.Type)
		for i := range v.Type.Len() {
			if v.Type.DType == graph.I32 {
				array.Data[int32](in[v.Name])[i] = gen.Int32N(experts)
			} else {
				array.Data[float32](in[v.Name])[i] = float32(gen.Float64() - 0.5)
			}
		}
	}
	want, err := gomoe.Run(context.Background(), p, gomoe.Config{}, in)
	require.NoError(t, err)
	for _, c := range []gomoe.Choice{{Blocks: 4}, {Remat: gomoe.RecomputeAll, Blocks: 2}, {Exchange: ep.Sum}} {
		q, err := c.Program(p)
		require.NoError(t, err)
		if c.Exchange == ep.Sum {
			require.Equal(t, 3, strings.Count(q.String(), `exchange="sum"`), "%v", q)
		} else {
			require.Equal(t, strings.Count(p.String(), "scan(")+1, strings.Count(q.String(), "scan("), "%v", q)
		}
		got, err := gomoe.Run(context.Background(), q, gomoe.Config{}, in)
		require.NoError(t, err)
		if diff, at := array.MaxDiff(got[0], want[0]); diff > 0 {
			t.Errorf("%v: element %d differs by %g", c, at, diff)
		}
	}
}
