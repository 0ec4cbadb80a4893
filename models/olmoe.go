package models

import (
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	pr "github.com/gomoe/gomoe/primitives"
)

// openOLMoE reads an OLMoE: softmax over all experts, whose weights are used as they are unless the model says
// otherwise; queries and keys are normalised over all heads together.
func openOLMoE(c *checkpoint.Checkpoint) (*Model, error) {
	r := &reader{c: c.Config}
	d := readDecoder(r, c)
	d.attention.Norm = nn.Together
	d.attention.Clip = r.numberOr(keys{"clip_qkv", ".attention.clamp_kqv"}, 0)
	r.only("attention_bias", "false")
	moe := nn.MoE{
		Experts: r.size(keys{"num_experts", ".expert_count"}),
		Width:   r.size(keys{"intermediate_size", ".feed_forward_length"}),
		Route: pr.RouteOp{
			TopK:        r.size(keys{"num_experts_per_tok", ".expert_used_count"}),
			Renormalize: r.flagOr(keys{"norm_topk_prob", ".expert_weights_norm"}, false),
		},
	}
	d.mlp = func(s *nn.Scope, _ int, x *graph.Value) *graph.Value {
		y, _ := moe.Apply(s.In("mlp", ""), x)
		return y
	}
	return d.model(r, moe.Experts, moe.Route.TopK)
}
