package engine_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// deep is n layers as in layersOf, whose weights are stacked. It returns the last layer's
// result, the losses of all routers and, if it asks for them, the gradients. The layers are
// one loop, or are written out.
func deep(n int, loop, gradients bool) (*graph.Program, error) {
	type weight struct {
		name string
		dims []int
	}
	var list []weight
	if _, err := graph.Trace("names", func(t *graph.Tracer) []*graph.Value {
		layerOf(t.Input("x", graph.F32, layerBatch, layerSeq, layerWidth), "moe", func(name string, dims ...int) *graph.Value {
			list = append(list, weight{name, dims})
			return t.Input(name, graph.F32, dims...)
		})
		return nil
	}); err != nil {
		return nil, err
	}
	return graph.Trace("deep", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.F32, layerBatch, layerSeq, layerWidth)
		var ws []*graph.Value
		for _, w := range list {
			ws = append(ws, t.Input(w.name, graph.F32, append([]int{n}, w.dims...)...))
		}
		layer := func(x *graph.Value, ws []*graph.Value) (*graph.Value, *graph.Value) {
			at := 0
			x, losses := layerOf(x, "moe", func(string, ...int) *graph.Value {
				at++
				return ws[at-1]
			})
			return primitives.Tanh(x), primitives.Add(losses[0], losses[1])
		}
		var losses *graph.Value
		if loop {
			out, each := graph.Scan(graph.ScanParams{}, []*graph.Value{x}, ws, func(carry, ws []*graph.Value) (c, y []*graph.Value) {
				x, loss := layer(carry[0], ws)
				return []*graph.Value{x}, []*graph.Value{loss}
			})
			x, losses = out[0], each[0]
		} else {
			var parts []*graph.Value
			for l := range n {
				slice := make([]*graph.Value, len(ws))
				for i, w := range ws {
					start := make([]int, w.Rank())
					limit := slices.Clone(w.Type.Shape)
					start[0], limit[0] = l, l+1
					slice[i] = primitives.Reshape(primitives.Slice(w, start, limit), list[i].dims...)
				}
				var loss *graph.Value
				x, loss = layer(x, slice)
				parts = append(parts, primitives.Reshape(loss, 1))
			}
			losses = primitives.Concatenate(0, parts...)
		}
		out := []*graph.Value{x, losses}
		if gradients {
			loss := primitives.Add(primitives.ReduceSum(x), primitives.ReduceSum(losses))
			out = append([]*graph.Value{loss}, vjp.Gradients(loss, ws...)...)
		}
		return out
	})
}

func loopOf(n int) (*graph.Program, error) { return deep(n, true, true) }

// onRanksDeep splits tokens and experts over four ranks.
func onRanksDeep(p *graph.Program) (gomoe.Config, error) {
	m, err := sharding.ParseMesh("dp=2,ep=2")
	cfg := gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{}, Overlap: lowering.OverlapCollectives}
	for _, v := range p.In {
		switch {
		case v.Name == "x":
			cfg.Place[v.Name] = sharding.Split("dp.ep")
		case v.Rank() == 4:
			cfg.Place[v.Name] = sharding.Split("", "ep")
		}
	}
	return cfg, err
}

// instructions counts those of the plan and of the bodies in it.
func instructions(p *lowering.Plan) int {
	n := len(p.Instrs)
	for i := range p.Instrs {
		if l := p.Instrs[i].Loop; l != nil {
			n += instructions(l.Body)
		}
	}
	return n
}

// TestLoopHasThePlanOfOneLayer compares the plans of a loop over 2 and over 64 layers, with
// their gradients: they have as many instructions, and temporaries of one layer.
func TestLoopHasThePlanOfOneLayer(t *testing.T) {
	for _, ranks := range []bool{false, true} {
		var plans []*lowering.Plan
		for _, n := range []int{2, 64} {
			p, err := loopOf(n)
			require.NoError(t, err)
			cfg := gomoe.Config{}
			if ranks {
				cfg, err = onRanksDeep(p)
				require.NoError(t, err)
			}
			cfg.Check = true
			plan, err := gomoe.Compile(t.Context(), p, cfg)
			require.NoError(t, err)
			plans = append(plans, plan)
		}
		few, many := plans[0], plans[1]
		if a, b := instructions(few), instructions(many); a != b {
			t.Errorf("%d instructions for 64 layers, want %d as for 2", b, a)
		}
		// What was carried into each layer, and each layer's loss, is kept for all layers.
		kept := int64(62 * (layerBatch*layerSeq*layerWidth + 64) * 4)
		if a, b := few.Arena, many.Arena; b > a+kept {
			t.Errorf("arena of %d bytes for 64 layers, want at most %d: that of 2, which is %d, and what is kept of 62 layers", b, a+kept, a)
		}
		t.Logf("%d instructions, arena %d bytes for 2 layers and %d for 64", instructions(many), few.Arena, many.Arena)
	}
}

// TestLoopOverLayersEqualsLayers runs 64 layers as a loop and written out: the results have
// the same bits, on one rank and on four, with experts on two of them.
func TestLoopOverLayersEqualsLayers(t *testing.T) {
	const n = 64
	var first []array.Array
	for _, ranks := range []bool{false, true} {
		for _, loop := range []bool{false, true} {
			p, err := deep(n, loop, false)
			require.NoError(t, err)
			cfg := gomoe.Config{}
			if ranks {
				cfg, err = onRanksDeep(p)
				require.NoError(t, err)
			}
			in := map[string]array.Array{}
			for k, v := range p.In {
				a := array.New(v.Type)
				for i := range array.Data[float32](a) {
					array.Data[float32](a)[i] = float32((i*7919+k*31)%211)/211 - 0.5
				}
				in[v.Name] = a
			}
			out, err := gomoe.Run(context.Background(), p, cfg, in)
			require.NoError(t, err)
			if first == nil {
				first = out
				continue
			}
			for i := range out {
				if !array.Equal(out[i], first[i]) {
					t.Errorf("result %d differs from that of one rank with the layers written out; on four ranks: %v, as a loop: %v", i, ranks, loop)
				}
			}
		}
	}
}
