package models

import (
	"slices"

	"github.com/gomoe/gomoe/checkpoint/peft"
)

// qwen2MoE is the family of Qwen2 with experts.
func qwen2MoE() Family {
	return Family{
		Name: "qwen2_moe", GGUF: "qwen2moe", Open: openQwen2MoE, Experts: "num_experts", LayerKinds: true,
		Defaults: map[string]any{"num_key_value_heads": 16, "sliding_window": 4096, "max_window_layers": 28},
		New: map[string]any{
			"num_experts": 8.0, "num_experts_per_tok": 2.0, "moe_intermediate_size": 256.0, "norm_topk_prob": false, "decoder_sparse_step": 1.0, "mlp_only_layers": []any{},
			"shared_expert_intermediate_size": 256.0, "qkv_bias": true, "use_sliding_window": false,
		},
		Adapters: peft.Layout{Experts: true},
		LlamaCPP: Program{Limits: slices.Concat(llamaCPP(noMscale(), linearOrYaRN(), none(partialRotary)), everyLayerSparse(),
			[]Limit{most("num_experts", 1024), wholeHeads(), only("norm_topk_prob", false), only("tie_word_embeddings", false)})},
		MLX: Program{Limits: slices.Concat([]Limit{positions(), none(partialRotary)}, everyLayerSparse(),
			[]Limit{wholeHeads(), only("norm_topk_prob", false), only("qkv_bias", true), only("tie_word_embeddings", false)}),
			Reads: "num_experts moe_intermediate_size shared_expert_intermediate_size layer_types"},
	}
}

// openQwen2MoE reads a Qwen2-MoE: softmax over all experts, with weights not renormalised unless a setting says so,
// and a shared expert multiplied by a sigmoid of the token.
func openQwen2MoE(r *Reader) (*Model, error) {
	d := ReadDecoder(r)
	a := ReadAttention(r, d)
	a.Bias = r.FlagOrTensor("qkv_bias", true, "blk.0.attn_q.bias")
	d.Attention = Windowed(a, r.qwenWindows(d.Layers, func(l, first int) bool { return l%2 == 0 && l < first }))
	moe := readQwenExperts(r, false)
	moe.SharedName, moe.SharedGate = "shared_expert", true
	moe.Shared = r.Size(Keys{"shared_expert_intermediate_size", ".expert_shared_feed_forward_length"})
	sparse, width := r.sparse()
	d.Experts("mlp", moe, width, sparse)
	return d.Model(r, moe.Experts, moe.Route.TopK)
}
