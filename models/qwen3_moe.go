package models

import (
	"fmt"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/nn"
	pr "github.com/gomoe/gomoe/primitives"
)

// openQwen3MoE reads a Qwen3-MoE: softmax over all experts, choosing the best; queries and keys are normalised per
// head; some layers may have a dense network instead of experts.
func openQwen3MoE(c *checkpoint.Checkpoint) (*Model, error) {
	r := newReader(c)
	d := readDecoder(r)
	a := readAttention(r, d)
	a.Norm = nn.PerHead
	r.only(keys{"use_qk_norm"}, "true")
	a.Bias = r.flagOrTensor("attention_bias", false, "blk.0.attn_q.bias")
	a.OutBias = r.flagOrTensor("attention_bias", false, "blk.0.attn_output.bias")
	d.attention = windowed(a, r.qwenWindows(d.layers, func(int, int) bool { return true }))
	// GGUF files do not state whether weights are normalised by their sum; the published models normalise them.
	moe := readQwenExperts(r, r.c.GGUF())
	sparse, width := r.sparse()
	d.experts("mlp", moe, width, sparse)
	return d.model(r, moe.Experts, moe.Route.TopK)
}

// readQwenExperts reads the experts of Qwen's families. renormalize is the default for files without the setting.
func readQwenExperts(r *reader, renormalize bool) nn.MoE {
	r.only(keys{"", ".expert_gating_func"}, fmt.Sprint(ggufSoftmax))
	return nn.MoE{
		Experts: r.size(r.experts("num_experts")),
		Width:   r.size(keys{"moe_intermediate_size", ".expert_feed_forward_length"}),
		Route: pr.RouteOp{
			TopK:        r.size(keys{"num_experts_per_tok", ".expert_used_count"}),
			Renormalize: r.flagOr(keys{"norm_topk_prob", ".expert_weights_norm"}, renormalize),
		},
	}
}

// sparse reads which layers have experts, and the width of the dense network in the others.
func (r *reader) sparse() (sparse func(l int) bool, width int) {
	every, dense := r.sizeOr(keys{"decoder_sparse_step"}, 1), map[int]bool{}
	for _, l := range list[int](r, "mlp_only_layers", "numbers of layers") {
		dense[l] = true
	}
	wide := keys{"intermediate_size", ".feed_forward_length"}
	if r.key(wide); len(dense) > 0 || every > 1 {
		width = r.size(wide)
	}
	return func(l int) bool { return !dense[l] && (l+1)%every == 0 }, width
}
