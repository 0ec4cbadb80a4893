package models

// defaults returns a family's values for settings missing from config.json, following its configuration class in
// transformers. A null setting counts as present and gets no default. Sizes of a model have no defaults:
// transformers would use the sizes of a published model, but Open requires them. testdata/defaults.py reads the
// classes, and a test compares them with Open.
func defaults(family string) map[string]any {
	switch family {
	case "deepseek_v2":
		return map[string]any{"q_lora_rank": 1536, "n_shared_experts": 2}
	case "deepseek_v3":
		return map[string]any{
			"q_lora_rank": 1536, "n_shared_experts": 1, "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5, "first_k_dense_replace": 3,
			"num_nextn_predict_layers": 1,
		}
	case "glm4_moe":
		return map[string]any{
			"num_key_value_heads": 8, "rms_norm_eps": 1e-5, "partial_rotary_factor": 0.5, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
			"first_k_dense_replace": 1, "num_nextn_predict_layers": 1,
		}
	case "gpt_oss":
		return map[string]any{
			"num_key_value_heads": 8, "head_dim": 64, "rms_norm_eps": 1e-5, "sliding_window": 128, "rope_theta": 150000.0,
			"rope_scaling.rope_type": "yarn", "rope_scaling.factor": 32.0, "rope_scaling.original_max_position_embeddings": 4096.0,
			"rope_scaling.beta_fast": 32.0, "rope_scaling.beta_slow": 1.0, "rope_scaling.truncate": false,
		}
	case "mixtral":
		return map[string]any{"num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1e6}
	case "olmoe":
		return map[string]any{"rms_norm_eps": 1e-5}
	case "qwen2_moe":
		return map[string]any{"num_key_value_heads": 16, "sliding_window": 4096, "max_window_layers": 28}
	case "qwen3":
		return map[string]any{"num_key_value_heads": 32, "head_dim": 128, "sliding_window": 4096, "max_window_layers": 28}
	case "qwen3_moe":
		return map[string]any{"num_key_value_heads": 4, "sliding_window": 4096}
	}
	return nil
}

// Default returns a family's value for a setting missing from config.json, or nil if there is no known default or
// the default has no meaning.
func Default(family, name string) any { return defaults(family)[name] }
