package models

import (
	"github.com/gomoe/gomoe/checkpoint"
)

// openQwen2MoE reads a Qwen2-MoE: softmax over all experts, with weights not renormalised unless a setting says so,
// and a shared expert multiplied by a sigmoid of the token.
func openQwen2MoE(c *checkpoint.Checkpoint) (*Model, error) {
	r := newReader(c)
	d := readDecoder(r)
	a := readAttention(r, d)
	a.Bias = r.flagOrTensor("qkv_bias", true, "blk.0.attn_q.bias")
	d.attention = windowed(a, r.qwenWindows(d.layers, func(l, first int) bool { return l%2 == 0 && l < first }))
	moe := readQwenExperts(r, false)
	moe.SharedName, moe.SharedGate = "shared_expert", true
	moe.Shared = r.size(keys{"shared_expert_intermediate_size", ".expert_shared_feed_forward_length"})
	sparse, width := r.sparse()
	d.experts("mlp", moe, width, sparse)
	return d.model(r, moe.Experts, moe.Route.TopK)
}
