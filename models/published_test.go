package models

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
)

// Every setting of the published models is known.
func TestPublishedSettings(t *testing.T) {
	const common = `"auto_map": {"AutoConfig": "x"}, "bos_token_id": 1, "eos_token_id": [1, 2], "pad_token_id": null, "hidden_act": "silu", "initializer_range": 0.02, "torch_dtype": "bfloat16",
		"transformers_version": "4.40.0", "use_cache": true, "attention_dropout": 0.0, "tie_word_embeddings": false, "rms_norm_eps": 1e-06, "vocab_size": 1000, `
	for _, x := range []struct {
		family               string
		layers, experts, top int
		config               string
	}{
		{"olmoe", 16, 64, 8, `"architectures": ["OlmoeForCausalLM"], "attention_bias": false, "clip_qkv": null, "hidden_size": 2048, "intermediate_size": 1024, "max_position_embeddings": 4096, "norm_topk_prob": false,
			"num_attention_heads": 16, "num_experts": 64, "num_experts_per_tok": 8, "num_hidden_layers": 16, "num_key_value_heads": 16, "output_router_logits": false, "rope_scaling": null, "rope_theta": 10000.0,
			"router_aux_loss_coef": 0.01`},
		{"mixtral", 32, 8, 2, `"hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768, "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
			"num_local_experts": 8, "output_router_logits": false, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02, "sliding_window": null`},
		{"qwen3_moe", 48, 128, 8, `"attention_bias": false, "decoder_sparse_step": 1, "head_dim": 128, "hidden_size": 2048, "intermediate_size": 6144, "max_position_embeddings": 40960, "max_window_layers": 48,
			"mlp_only_layers": [], "moe_intermediate_size": 768, "norm_topk_prob": true, "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4,
			"output_router_logits": false, "rope_scaling": null, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001, "sliding_window": null, "use_sliding_window": false`},
		{"qwen2_moe", 24, 60, 4, `"decoder_sparse_step": 1, "hidden_size": 2048, "intermediate_size": 5632, "max_position_embeddings": 8192, "max_window_layers": 21, "moe_intermediate_size": 1408, "norm_topk_prob": false,
			"num_attention_heads": 16, "num_experts": 60, "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 16, "output_router_logits": false, "rope_theta": 1000000.0,
			"router_aux_loss_coef": 0.001, "shared_expert_intermediate_size": 5632, "sliding_window": 32768, "use_sliding_window": false`},
		{"llama", 32, 0, 0, `"attention_bias": false, "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false, "num_attention_heads": 32, "num_hidden_layers": 32,
			"num_key_value_heads": 8, "pretraining_tp": 1, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
			"rope_theta": 500000.0`},
		{"qwen3", 36, 0, 0, `"attention_bias": false, "head_dim": 128, "hidden_size": 4096, "intermediate_size": 12288, "max_position_embeddings": 40960, "max_window_layers": 36, "num_attention_heads": 32,
			"num_hidden_layers": 36, "num_key_value_heads": 8, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null, "use_sliding_window": false`},
		{"deepseek_v2", 27, 64, 6, `"attention_bias": false, "aux_loss_alpha": 0.001, "first_k_dense_replace": 1, "hidden_size": 2048, "intermediate_size": 10944, "kv_lora_rank": 512, "max_position_embeddings": 163840,
			"moe_intermediate_size": 1408, "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 64, "n_shared_experts": 2, "norm_topk_prob": false, "num_attention_heads": 16, "num_experts_per_tok": 6,
			"num_hidden_layers": 27, "num_key_value_heads": 16, "pretraining_tp": 1, "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rope_scaling": {"beta_fast": 32, "beta_slow": 1,
			"factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096, "type": "yarn"}, "rope_theta": 10000, "routed_scaling_factor": 1.0, "scoring_func": "softmax",
			"seq_aux": true, "topk_group": 1, "topk_method": "greedy", "v_head_dim": 128`},
		{"deepseek_v3", 61, 256, 8, `"attention_bias": false, "ep_size": 1, "first_k_dense_replace": 3, "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
			"moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 128, "num_experts_per_tok": 8,
			"num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "quantization_config": {"activation_scheme":
			"dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]}, "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
			"original_max_position_embeddings": 4096, "type": "yarn"}, "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "topk_group": 4, "topk_method": "noaux_tc", "v_head_dim": 128`},
		{"glm4_moe", 46, 128, 8, `"attention_bias": true, "first_k_dense_replace": 1, "head_dim": 128, "hidden_size": 4096, "intermediate_size": 10944, "max_position_embeddings": 131072, "moe_intermediate_size": 1408,
			"n_group": 1, "n_routed_experts": 128, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 96, "num_experts_per_tok": 8, "num_hidden_layers": 46, "num_key_value_heads": 8,
			"num_nextn_predict_layers": 1, "partial_rotary_factor": 0.5, "rope_scaling": null, "rope_theta": 1000000, "routed_scaling_factor": 1.0, "topk_group": 1, "use_qk_norm": false`},
		{"gpt_oss", 24, 32, 4, `"attention_bias": true, "experts_per_token": 4, "head_dim": 64, "hidden_size": 2880, "initial_context_length": 4096, "intermediate_size": 2880, "layer_types": ["sliding_attention",
			"full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
			"full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention",
			"full_attention", "sliding_attention", "full_attention"], "max_position_embeddings": 131072, "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 8,
			"num_local_experts": 32, "output_router_logits": false, "quantization_config": {"modules_to_not_convert": ["lm_head"], "quant_method": "mxfp4"}, "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0,
			"factor": 32.0, "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false}, "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0`},
	} {
		dir := t.TempDir()
		require.NoError(t, safetensors.Write(filepath.Join(dir, safetensors.FileName), nil, []tensor.Source{tensor.Of("x", array.New(graph.T(graph.F32, 1)))}))
		require.NoError(t, os.WriteFile(filepath.Join(dir, checkpoint.ConfigName), []byte(`{"model_type": "`+x.family+`", `+common+x.config+"}"), 0o666))
		c, err := checkpoint.Open(dir)
		require.NoError(t, err)
		defer c.Close()
		m, err := Open(c)
		require.NoError(t, err, x.family)
		if m.Family.Name != x.family || m.Layers != x.layers || m.Experts != x.experts || m.TopK != x.top || m.Vocab != 1000 {
			t.Errorf("%s: family %s with %d layers, %d experts of which a token uses %d, and %d tokens", x.family, m.Family.Name, m.Layers, m.Experts, m.TopK, m.Vocab)
		}
	}
}
