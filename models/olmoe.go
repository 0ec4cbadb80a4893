package models

import (
	"fmt"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/nn"
	pr "github.com/gomoe/gomoe/primitives"
)

// openOLMoE reads an OLMoE: softmax over all experts, with weights not renormalised unless a setting says so;
// queries and keys are normalised over all heads together.
func openOLMoE(c *checkpoint.Checkpoint) (*Model, error) {
	r := newReader(c)
	d := readDecoder(r)
	a := readAttention(r, d)
	a.Norm = nn.Together
	a.Clip = r.numberOr(keys{"clip_qkv", ".attention.clamp_kqv"}, 0)
	a.Bias = r.flagOrTensor("attention_bias", false, "blk.0.attn_q.bias")
	a.OutBias = r.flagOrTensor("attention_bias", false, "blk.0.attn_output.bias")
	r.only(keys{"", ".expert_gating_func"}, fmt.Sprint(ggufSoftmax))
	d.attention = func(int) mixer { return a }
	moe := nn.MoE{
		Experts: r.size(r.experts("num_experts")),
		Width:   r.size(keys{"intermediate_size", ".feed_forward_length"}),
		Route: pr.RouteOp{
			TopK:        r.size(keys{"num_experts_per_tok", ".expert_used_count"}),
			Renormalize: r.flagOr(keys{"norm_topk_prob", ".expert_weights_norm"}, false),
		},
	}
	d.experts("mlp", moe, 0, everyLayer)
	return d.model(r, moe.Experts, moe.Route.TopK)
}
