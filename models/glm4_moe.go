package models

import (
	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/nn"
)

// glm4MoE is the family of GLM-4 with experts.
func glm4MoE() Family {
	return Family{
		Name: "glm4_moe", GGUF: "glm4moe", Open: openGLM4MoE, Experts: "n_routed_experts",
		Defaults: map[string]any{
			"num_key_value_heads": 8, "rms_norm_eps": 1e-5, partialRotary: 0.5, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
			"first_k_dense_replace": 1, "num_nextn_predict_layers": 1,
		},
		New:      newGrouped(map[string]any{"use_qk_norm": false, partialRotary: 0.5}),
		Adapters: peft.Layout{Experts: true},
		LlamaCPP: Program{Limits: llamaCPP(append(groupsOfLlamaCPP(), noMscale(), linearOrYaRN())...)},
		MLX: Program{Limits: []Limit{positions(), only("tie_word_embeddings", false), severalExperts()}, RouterAlone: true,
			Reads: "n_routed_experts moe_intermediate_size n_shared_experts n_group topk_group routed_scaling_factor norm_topk_prob first_k_dense_replace use_qk_norm attention_bias partial_rotary_factor"},
	}
}

// openGLM4MoE reads a GLM-4-MoE: multi-head attention rotating a part of each head's columns, followed by the
// experts of DeepSeek-V3.
func openGLM4MoE(r *Reader) (*Model, error) {
	d := ReadDecoder(r)
	d.Norm = "post_attention_norm"
	a := ReadAttention(r, d)
	a.Bias = r.FlagOrTensor("attention_bias", false, "blk.0.attn_q.bias")
	if r.FlagOrTensor("use_qk_norm", false, "blk.0.attn_q_norm.weight") {
		a.Norm = nn.PerHead
	}
	d.Attention = func(int) Mixer { return a }
	return d.AfterDense(r, readSigmoidExperts(r))
}
