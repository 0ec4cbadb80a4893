package main

import (
	"fmt"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// model is the size of the job: T tokens of all ranks, K choices, H hidden, E experts, L layers.
// exchange is the return path of the experts' outputs.
type model struct {
	tokens, topK, hidden, out, layers, experts int
	dtype                                      graph.DType
	exchange                                   ep.Exchange
}

// layer holds the settings common to all MoE layers of the job; 16 is the alignment of the
// original.
func (m model) layer(l int) primitives.PrepareOp {
	return primitives.PrepareOp{Experts: m.experts, Align: 16, Exchange: m.exchange, Label: fmt.Sprintf("layer%d", l)}
}

// program returns the traced job: its results are the loss, the output [T,H_out], and the gradients
// of tokens, topk_w and every layer's kernels.
func (m model) program() (*graph.Program, error) {
	return graph.Trace("ep_moe", func(t *graph.Tracer) []*graph.Value {
		tokens := t.Input("tokens", m.dtype, m.tokens, m.hidden)
		weights := t.Input("topk_w", graph.F32, m.tokens, m.topK)
		wrt := []*graph.Value{tokens, weights}
		x := tokens
		for l := range m.layers {
			idx := t.Input(fmt.Sprintf("topk_idx_%d", l), graph.I32, m.tokens, m.topK)
			kernels := t.Input(fmt.Sprintf("kernels_%d", l), m.dtype, m.experts, m.hidden, m.out)
			wrt = append(wrt, kernels)

			end := t.Scope("layers.%d", l)
			r := primitives.Prepare(m.layer(l), idx)
			rows, rowWeights := primitives.DispatchWeighted(r, x, weights)
			x = primitives.Combine(r, weigh(primitives.GroupedMatMul(r, rows, kernels), rowWeights))
			end()
		}
		loss := primitives.MulScalar(primitives.ReduceSum(primitives.Square(primitives.ConvertElementType(x, graph.F32))), 0.5).Named("loss")
		out := []*graph.Value{loss, x.Named("out")}
		for i, g := range vjp.Gradients(loss, wrt...) {
			out = append(out, g.Named("grad_"+wrt[i].Name))
		}
		return out
	})
}

// weigh multiplies rows by their weights in f32 and rounds back.
func weigh(rows, w *graph.Value) *graph.Value {
	y := primitives.Mul(primitives.ConvertElementType(rows, graph.F32), primitives.BroadcastInDim(w, rows.Type.Shape, 0))
	return primitives.ConvertElementType(y, rows.Type.DType)
}

// placed shards tokens over every axis of the mesh, or over every axis but ep if they are whole
// over it, and experts over ep.
func (m model) placed(mesh sharding.Mesh, whole bool) gomoe.Config {
	var axes []string
	for _, a := range mesh.Axes {
		if a.Name != "ep" || !whole {
			axes = append(axes, a.Name)
		}
	}
	rows := sharding.Spec{Dims: [][]string{axes}}
	cfg := gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"tokens": rows, "topk_w": rows}}
	for l := range m.layers {
		cfg.Place[fmt.Sprintf("topk_idx_%d", l)] = rows
		if mesh.Size("ep") > 0 {
			cfg.Place[fmt.Sprintf("kernels_%d", l)] = sharding.Split("ep")
		}
	}
	return cfg
}
