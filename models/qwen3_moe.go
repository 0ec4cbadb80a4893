package models

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// qwen3MoE is the family of Qwen3 with experts.
func qwen3MoE() Family {
	return Family{
		Name: "qwen3_moe", GGUF: "qwen3moe", Open: openQwen3MoE, Experts: "num_experts",
		Defaults: map[string]any{"num_key_value_heads": 4, "sliding_window": 4096},
		New: map[string]any{
			"attention_bias": false, "num_experts": 8.0, "num_experts_per_tok": 2.0, "moe_intermediate_size": 256.0, "norm_topk_prob": true, "decoder_sparse_step": 1.0,
			"mlp_only_layers": []any{}, "use_sliding_window": false,
		},
		Adapters: peft.Layout{Experts: true},
		LlamaCPP: Program{Limits: slices.Concat(llamaCPP(noMscale(), linearOrYaRN(), none(partialRotary)), everyLayerSparse(),
			[]Limit{most("num_experts", 1024), only("norm_topk_prob", true), only("attention_bias", false)})},
		MLX: Program{Limits: []Limit{positions(), none(partialRotary), only("attention_bias", false)},
			Reads: "num_experts moe_intermediate_size norm_topk_prob decoder_sparse_step mlp_only_layers layer_types"},
	}
}

// openQwen3MoE reads a Qwen3-MoE: softmax over all experts, choosing the best; queries and keys are normalised per
// head; some layers may have a dense network instead of experts.
func openQwen3MoE(r *Reader) (*Model, error) {
	d := ReadDecoder(r)
	a := ReadAttention(r, d)
	a.Norm = nn.PerHead
	r.Only(Keys{"use_qk_norm"}, "true")
	a.Bias = r.FlagOrTensor("attention_bias", false, "blk.0.attn_q.bias")
	a.OutBias = r.FlagOrTensor("attention_bias", false, "blk.0.attn_output.bias")
	d.Attention = Windowed(a, r.qwenWindows(d.Layers, func(int, int) bool { return true }))
	// GGUF files do not state whether weights are normalised by their sum; the published models normalise them.
	moe := readQwenExperts(r, r.c.GGUF())
	sparse, width := r.sparse()
	d.Experts("mlp", moe, width, sparse)
	return d.Model(r, moe.Experts, moe.Route.TopK)
}

// readQwenExperts reads the experts of Qwen's families. renormalize is the default for files without the setting.
func readQwenExperts(r *Reader, renormalize bool) nn.MoE {
	r.Only(Keys{"", ".expert_gating_func"}, fmt.Sprint(ggufSoftmax))
	return nn.MoE{
		Experts: r.Experts(),
		Width:   r.Size(Keys{"moe_intermediate_size", ".expert_feed_forward_length"}),
		Route: primitives.RouteOp{
			TopK:        r.Size(Keys{"num_experts_per_tok", ".expert_used_count"}),
			Renormalize: r.FlagOr(Keys{"norm_topk_prob", ".expert_weights_norm"}, renormalize),
		},
	}
}

// sparse reads which layers have experts, and the width of the dense network in the others.
func (r *Reader) sparse() (sparse func(l int) bool, width int) {
	every, dense := r.SizeOr(Keys{"decoder_sparse_step"}, 1), map[int]bool{}
	for _, l := range list[int](r, "mlp_only_layers", "numbers of layers") {
		dense[l] = true
	}
	wide := Keys{"intermediate_size", ".feed_forward_length"}
	if r.key(wide); len(dense) > 0 || every > 1 {
		width = r.Size(wide)
	}
	return func(l int) bool { return !dense[l] && (l+1)%every == 0 }, width
}
