package models

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// gptOSS is the family of gpt-oss.
func gptOSS() Family {
	fixed := []Limit{only("attention_bias", true), only("tie_word_embeddings", false), only("swiglu_limit", 7.0), only("swiglu_alpha", 1.702)}
	return Family{
		Name: "gpt_oss", GGUF: "gpt-oss", Open: openGPTOSS, Experts: "num_local_experts", LayerKinds: true,
		Defaults: map[string]any{
			"num_key_value_heads": 8, "head_dim": 64, "rms_norm_eps": 1e-5, "sliding_window": 128, "rope_theta": 150000.0,
			"rope_scaling.rope_type": "yarn", "rope_scaling.factor": 32.0, "rope_scaling.original_max_position_embeddings": 4096.0,
			"rope_scaling.beta_fast": 32.0, "rope_scaling.beta_slow": 1.0, "rope_scaling.truncate": false,
		},
		New: map[string]any{
			"num_local_experts": 8.0, "num_experts_per_tok": 2.0, "head_dim": 32.0, "attention_bias": true, "sliding_window": 128.0, "swiglu_limit": 7.0,
			"rope_parameters": map[string]any{"rope_type": "default", "rope_theta": 10000.0}, "layer_types": nil,
		},
		Adapters: peft.Layout{Experts: true, Interleaved: true},
		LlamaCPP: Program{Limits: llamaCPP(append(fixed, noMscale(), linearOrYaRN(), none(partialRotary), most("num_local_experts", 1024))...)},
		MLX: Program{Experts: "experts", Reads: "num_local_experts sliding_window layer_types rope_scaling",
			Limits: slices.Concat(ropeUtils(), fixed, []Limit{none(partialRotary), {"layer_types", func(s map[string]any) bool {
				kinds, _ := s["layer_types"].([]string)
				return slices.Contains(kinds, slidingAttention) && slices.Contains(kinds, fullAttention)
			}, "layers of both kinds"}})},
	}
}

// openGPTOSS reads a gpt-oss: every second layer, starting with the first, has sliding-window attention; each head
// has a sink; router, experts and attention have biases; experts are chosen by logits, and weighted by the softmax
// over the chosen ones. Files store experts as numbers with gate and up interleaved, or as MXFP4 blocks; see fused.
func openGPTOSS(r *Reader) (*Model, error) {
	r.fractions = r.c.GGUF()
	d := ReadDecoder(r)
	d.Norm = "post_attention_norm"
	a := ReadAttention(r, d)
	sliding := r.SlidingRoPE(a.Width, a.RoPE)
	a.Bias, a.Sinks = r.FlagOrTensor("attention_bias", true, "blk.0.attn_q.bias"), true
	a.OutBias = a.Bias
	window := r.Size(Keys{"sliding_window", ".attention.sliding_window"})
	turns := func(l int) bool { return l%2 == 0 }
	windows := r.Windows(d.Layers, window, turns, turns)
	d.Attention = func(l int) Mixer {
		a := a
		if a.Window = windows(l); a.Window > 0 {
			a.RoPE = sliding
		}
		return a
	}

	moe := nn.MoE{
		Experts: r.Experts(),
		Width:   r.Size(r.Either(Keys{"intermediate_size", ".expert_feed_forward_length"}, Keys{"", ".feed_forward_length"})),
		Route:   primitives.RouteOp{TopK: r.Size(Keys{"num_experts_per_tok", ".expert_used_count"}), Score: primitives.TopKSoftmaxScore},
		Router:  "router", RouterBias: true, ExpertBias: true,
		GLU: nn.GLU{
			Limit: r.NumberOr(Keys{"swiglu_limit", ".swiglu_clamp_exp"}, 7),
			Alpha: r.NumberOr(Keys{"swiglu_alpha"}, 1.702),
			Shift: 1,
		},
	}
	r.Only(Keys{"experts_per_token"}, fmt.Sprint(moe.Route.TopK))
	r.Only(Keys{"", ".expert_gating_func"}, fmt.Sprint(ggufSoftmaxOfChosen))
	r.read["initial_context_length"], r.read[".feed_forward_length"] = true, true // repeated by the settings of YaRN and of the experts
	d.Experts("mlp", moe, 0, nil)
	return d.Model(r, moe.Experts, moe.Route.TopK)
}
