package models

import (
	"fmt"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/nn"
	pr "github.com/gomoe/gomoe/primitives"
)

// openGPTOSS reads a gpt-oss: every second layer, starting with the first, has sliding-window attention; each head
// has a sink; router, experts and attention have biases; experts are chosen by logits, and weighted by the softmax
// over the chosen ones. Files store experts as numbers with gate and up interleaved, or as MXFP4 blocks; see fused.
func openGPTOSS(c *checkpoint.Checkpoint) (*Model, error) {
	r := newReader(c)
	r.fractions = r.c.GGUF()
	d := readDecoder(r)
	d.norm = "post_attention_norm"
	a := readAttention(r, d)
	sliding := r.slidingRope(a.Width, a.RoPE)
	a.Bias, a.Sinks = r.flagOrTensor("attention_bias", true, "blk.0.attn_q.bias"), true
	a.OutBias = a.Bias
	window := r.size(keys{"sliding_window", ".attention.sliding_window"})
	turns := func(l int) bool { return l%2 == 0 }
	windows := r.windows(d.layers, window, turns, turns)
	d.attention = func(l int) mixer {
		a := a
		if a.Window = windows(l); a.Window > 0 {
			a.RoPE = sliding
		}
		return a
	}

	moe := nn.MoE{
		Experts: r.size(r.experts("num_local_experts")),
		Width:   r.size(r.either(keys{"intermediate_size", ".expert_feed_forward_length"}, keys{"", ".feed_forward_length"})),
		Route:   pr.RouteOp{TopK: r.size(keys{"num_experts_per_tok", ".expert_used_count"}), Score: pr.TopKSoftmaxScore},
		Router:  "router", RouterBias: true, ExpertBias: true,
		GLU: nn.GLU{
			Limit: r.numberOr(keys{"swiglu_limit", ".swiglu_clamp_exp"}, 7),
			Alpha: r.numberOr(keys{"swiglu_alpha"}, 1.702),
			Shift: 1,
		},
	}
	r.only(keys{"experts_per_token"}, fmt.Sprint(moe.Route.TopK))
	r.only(keys{"", ".expert_gating_func"}, fmt.Sprint(ggufSoftmaxOfChosen))
	r.read["initial_context_length"], r.read[".feed_forward_length"] = true, true // repeated by the settings of YaRN and of the experts
	d.experts("mlp", moe, 0, everyLayer)
	return d.model(r, moe.Experts, moe.Route.TopK)
}
