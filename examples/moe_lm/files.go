package main

import (
	"fmt"
	"strings"

	"github.com/gomoe/gomoe/train/lm"
)

// Name returns a weight's name in Hugging Face's files of the Mixtral architecture.
func (m *model) Name(weight string) (name string, transposed bool) {
	var layer int
	var part string
	if _, err := fmt.Sscanf(weight, "l%d_%s", &layer, &part); err != nil {
		part = weight
	}
	of := map[string]string{
		"embed": "model.embed_tokens.weight", "norm": "model.norm.weight", "head": "lm_head.weight",
		"norm1": "input_layernorm", "norm2": "post_attention_layernorm", "router": "block_sparse_moe.gate",
		"wq": "self_attn.q_proj", "wk": "self_attn.k_proj", "wv": "self_attn.v_proj", "wo": "self_attn.o_proj",
		"gate": "block_sparse_moe.experts.*.w1", "down": "block_sparse_moe.experts.*.w2", "up": "block_sparse_moe.experts.*.w3",
	}
	if name = of[part]; part != weight {
		name = fmt.Sprintf("model.layers.%d.%s.weight", layer, name)
	}
	return name, part != "embed" && !strings.HasPrefix(part, "norm")
}

// Config returns the members of the model's config.json.
func (m *model) Config(o *lm.Options) map[string]any {
	return map[string]any{
		"architectures":           []string{"MixtralForCausalLM"},
		"model_type":              "mixtral",
		"torch_dtype":             "float32",
		"vocab_size":              lm.Vocab,
		"hidden_size":             m.Width,
		"intermediate_size":       m.FFN,
		"num_hidden_layers":       m.Layers,
		"num_attention_heads":     m.Heads,
		"num_key_value_heads":     m.Heads,
		"num_local_experts":       m.Experts,
		"num_experts_per_tok":     m.TopK,
		"max_position_embeddings": o.Length,
		"rms_norm_eps":            epsilon,
		"rope_theta":              10000.0,
		"hidden_act":              "silu",
		"tie_word_embeddings":     false,
		"sliding_window":          nil,
		"bos_token_id":            nil,
		"eos_token_id":            nil,
	}
}
