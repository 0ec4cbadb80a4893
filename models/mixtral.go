package models

import (
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	pr "github.com/gomoe/gomoe/primitives"
)

// openMixtral reads a Mixtral: softmax over all experts, of which the best are used with weights that add up to 1.
// In GGUF files its architecture is llama, and pairs of rotary positions are neighbours.
func openMixtral(c *checkpoint.Checkpoint) (*Model, error) {
	r := &reader{c: c.Config}
	d := readDecoder(r, c)
	d.attention.Window = r.sizeOr(keys{"sliding_window", ".attention.sliding_window"}, 0)
	moe := nn.MoE{
		Experts: r.size(keys{"num_local_experts", ".expert_count"}),
		Width:   r.size(keys{"intermediate_size", ".feed_forward_length"}),
		Route:   pr.RouteOp{TopK: r.size(keys{"num_experts_per_tok", ".expert_used_count"}), Renormalize: true},
		Gate:    "w1", Up: "w3", Down: "w2",
	}
	d.mlp = func(s *nn.Scope, _ int, x *graph.Value) *graph.Value {
		y, _ := moe.Apply(s.In("block_sparse_moe", ""), x)
		return y
	}
	return d.model(r, moe.Experts, moe.Route.TopK)
}
