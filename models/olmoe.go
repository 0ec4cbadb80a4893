package models

import (
	"fmt"

	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// olmoe is the family of OLMoE.
func olmoe() Family {
	return Family{
		Name: "olmoe", GGUF: "olmoe", Open: openOLMoE, Experts: "num_experts",
		Defaults: map[string]any{"rms_norm_eps": 1e-5},
		New:      map[string]any{"attention_bias": false, "num_experts": 8.0, "num_experts_per_tok": 2.0, "norm_topk_prob": false, "clip_qkv": nil},
		Adapters: peft.Layout{Experts: true},
		LlamaCPP: Program{Limits: llamaCPP(noMscale(), linearOrYaRN(), none(partialRotary), most("num_experts", 1024), wholeHeads(),
			only("norm_topk_prob", false), only("tie_word_embeddings", false), none("clip_qkv"), only("attention_bias", false),
			Limit{"num_key_value_heads", func(s map[string]any) bool {
				return integer(s, "num_key_value_heads") == integer(s, "num_attention_heads")
			}, "num_attention_heads"})},
		MLX: Program{Limits: append(ropeUtils(), none(partialRotary), none("clip_qkv")), Reads: "num_experts norm_topk_prob attention_bias rope_scaling"},
	}
}

// openOLMoE reads an OLMoE: softmax over all experts, with weights not renormalised unless a setting says so;
// queries and keys are normalised over all heads together.
func openOLMoE(r *Reader) (*Model, error) {
	d := ReadDecoder(r)
	a := ReadAttention(r, d)
	a.Norm = nn.Together
	a.Clip = r.NumberOr(Keys{"clip_qkv", ".attention.clamp_kqv"}, 0)
	a.Bias = r.FlagOrTensor("attention_bias", false, "blk.0.attn_q.bias")
	a.OutBias = r.FlagOrTensor("attention_bias", false, "blk.0.attn_output.bias")
	r.Only(Keys{"", ".expert_gating_func"}, fmt.Sprint(ggufSoftmax))
	d.Attention = func(int) Mixer { return a }
	moe := nn.MoE{
		Experts: r.Experts(),
		Width:   r.Size(Keys{"intermediate_size", ".feed_forward_length"}),
		Route: primitives.RouteOp{
			TopK:        r.Size(Keys{"num_experts_per_tok", ".expert_used_count"}),
			Renormalize: r.FlagOr(Keys{"norm_topk_prob", ".expert_weights_norm"}, false),
		},
	}
	d.Experts("mlp", moe, 0, nil)
	return d.Model(r, moe.Experts, moe.Route.TopK)
}
