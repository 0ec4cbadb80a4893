package models

import (
	"fmt"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/nn"
	pr "github.com/gomoe/gomoe/primitives"
)

// openMixtral reads a Mixtral: softmax over all experts, choosing the best with weights normalised to 1. In GGUF
// files its architecture is llama, and the pairs of rotary positions are adjacent rows.
func openMixtral(c *checkpoint.Checkpoint) (*Model, error) {
	r := newReader(c)
	d := readDecoder(r)
	a := readAttention(r, d)
	a.Window = r.sizeOr(keys{"sliding_window", ".attention.sliding_window"}, 0)
	r.only(keys{"norm_topk_prob", ".expert_weights_norm"}, "true")
	r.only(keys{"", ".expert_gating_func"}, fmt.Sprint(ggufSoftmax))
	d.attention = func(int) mixer { return a }
	moe := nn.MoE{
		Experts:  r.size(r.experts("num_local_experts")),
		Width:    r.size(keys{"intermediate_size", ".feed_forward_length"}),
		Route:    pr.RouteOp{TopK: r.size(keys{"num_experts_per_tok", ".expert_used_count"}), Renormalize: true},
		Matrices: nn.Matrices{Gate: "w1", Up: "w3", Down: "w2"},
	}
	d.experts("block_sparse_moe", moe, 0, everyLayer)
	return d.model(r, moe.Experts, moe.Route.TopK)
}
