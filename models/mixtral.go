package models

import (
	"fmt"

	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// mixtral is the family of Mixtral.
func mixtral() Family {
	return Family{
		Name: "mixtral", GGUF: "llama", Open: openMixtral, Experts: "num_local_experts", Paired: true,
		Defaults: map[string]any{"num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1e6},
		New:      map[string]any{"num_local_experts": 8.0, "num_experts_per_tok": 2.0, "sliding_window": nil},
		Adapters: peft.Layout{Experts: true, Block: "block_sparse_moe", Matrices: [3]string{"w1", "w2", "w3"}},
		LlamaCPP: Program{Limits: llamaCPP(noMscale(), linearOrYaRN(), none(partialRotary), most("num_local_experts", 1024), noWindow())},
		MLX:      Program{Limits: []Limit{positions(), none(partialRotary), wholeHeads(), noWindow()}, Reads: "num_local_experts"},
	}
}

// openMixtral reads a Mixtral: softmax over all experts, choosing the best with weights normalised to 1. In GGUF
// files its architecture is llama, and the pairs of rotary positions are adjacent rows.
func openMixtral(r *Reader) (*Model, error) {
	d := ReadDecoder(r)
	a := ReadAttention(r, d)
	a.Window = r.SizeOr(Keys{"sliding_window", ".attention.sliding_window"}, 0)
	r.Only(Keys{"norm_topk_prob", ".expert_weights_norm"}, "true")
	r.Only(Keys{"", ".expert_gating_func"}, fmt.Sprint(ggufSoftmax))
	d.Attention = func(int) Mixer { return a }
	moe := nn.MoE{
		Experts:  r.Experts(),
		Width:    r.Size(Keys{"intermediate_size", ".feed_forward_length"}),
		Route:    primitives.RouteOp{TopK: r.Size(Keys{"num_experts_per_tok", ".expert_used_count"}), Renormalize: true},
		Matrices: nn.Matrices{Gate: "w1", Up: "w3", Down: "w2"},
	}
	d.Experts("block_sparse_moe", moe, 0, nil)
	return d.Model(r, moe.Experts, moe.Route.TopK)
}
