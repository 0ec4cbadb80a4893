package models

import (
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	pr "github.com/gomoe/gomoe/primitives"
)

// openQwen3 reads a Qwen3-MoE: softmax over all experts, of which the best are used; queries and keys are
// normalised head by head; some layers may have one network instead of experts.
func openQwen3(c *checkpoint.Checkpoint) (*Model, error) {
	r := &reader{c: c.Config}
	d := readDecoder(r, c)
	d.attention.Norm = nn.PerHead
	r.only("attention_bias", "false")
	r.only("use_sliding_window", "false")
	moe := nn.MoE{
		Experts: r.size(r.either(keys{"num_experts", ".expert_count"}, keys{"num_local_experts", ".expert_count"})), // the second is what transformers 5 writes
		Width:   r.size(keys{"moe_intermediate_size", ".expert_feed_forward_length"}),
		Route: pr.RouteOp{
			TopK: r.size(keys{"num_experts_per_tok", ".expert_used_count"}),
			// Files of GGUF do not say it, and the models that are published do so.
			Renormalize: r.flagOr(keys{"norm_topk_prob", ".expert_weights_norm"}, c.Format == checkpoint.GGUF),
		},
	}
	every := r.sizeOr(keys{"decoder_sparse_step"}, 1)
	dense := map[int]bool{}
	for _, l := range r.list("mlp_only_layers") {
		dense[l] = true
	}
	width := 0
	if len(dense) > 0 || every > 1 {
		width = r.size(keys{"intermediate_size", ".feed_forward_length"})
	}
	d.mlp = func(s *nn.Scope, l int, x *graph.Value) *graph.Value {
		if dense[l] || (l+1)%every != 0 {
			return nn.MLP{Width: width}.Apply(s.In("mlp", ""), x)
		}
		y, _ := moe.Apply(s.In("mlp", ""), x)
		return y
	}
	return d.model(r, moe.Experts, moe.Route.TopK)
}
