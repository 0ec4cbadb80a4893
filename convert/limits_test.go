package convert

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/models"
)

// portable returns a model of testdata without what llama.cpp or mlx-lm does not compute for its family.
func portable(t *testing.T, name string) string {
	t.Helper()
	yarn := map[string]any{"rope_theta": 1000, "rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 64}
	deepseek := map[string]any{"mscale": 0.7, "mscale_all_dim": 0.7}
	maps.Copy(deepseek, yarn)
	settings := map[string]map[string]any{
		"deepseek_v2": {"q_lora_rank": 7, "rope_parameters": deepseek},
		"deepseek_v3": {"rms_norm_eps": 1e-6, "num_nextn_predict_layers": 0, "rope_parameters": deepseek, "n_group": 1, "topk_group": 1}, // biases are below 0
		"glm4_moe":    {"num_nextn_predict_layers": 0},

		"deepseek_v2_groups": {"rope_parameters": deepseek},
		"gpt_oss":            {"swiglu_limit": 7, "rope_parameters": yarn},
		"gpt_oss_mxfp4":      {"swiglu_limit": 7, "rope_parameters": yarn},
		"llama":              {"rope_parameters": yarn}, // llama3 is TestLlama3
		"mixtral_tied":       {"sliding_window": nil},
		"olmoe":              {"clip_qkv": nil},
		"qwen3_moe":          {"mlp_only_layers": []int{}},
	}[name]
	if name == "deepseek_v2" || name == "qwen3_moe" { // whose matrices are others
		return made(t, name, settings, nil)
	}
	return configured(t, name, settings)
}

// configured returns a model of testdata with other settings.
func configured(t *testing.T, name string, settings map[string]any) string {
	t.Helper()
	dir := folderOf(t, name)
	path := filepath.Join(dir, checkpoint.ConfigName)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, json.Unmarshal(data, &config))
	maps.Copy(config, settings)
	data, err = json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o666))
	return dir
}

// rope returns the setting of positions that are scaled in some way.
func rope(kind string, more map[string]any) map[string]any {
	in := map[string]any{"rope_theta": 1000, "rope_type": kind}
	switch kind {
	case "llama3":
		in["low_freq_factor"], in["high_freq_factor"] = 1, 4
		fallthrough
	case "yarn":
		in["original_max_position_embeddings"] = 64
		fallthrough
	case "linear", "dynamic":
		in["factor"] = 2
	}
	for k, v := range more {
		in[k] = v
	}
	return map[string]any{"rope_parameters": in}
}

// What llama.cpp or mlx-lm would ignore is an error, and the other program's files have it if that program computes it.
func TestLimits(t *testing.T) {
	type m = map[string]any
	const both = Layout("both")
	plain := rope("default", nil)["rope_parameters"]
	for _, c := range []struct {
		name     string
		settings m
		layout   Layout // that cannot have it
		want     string
	}{
		{"llama", rope("yarn", m{"beta_fast": 16}), GGUF, "rope_scaling.beta_fast is 16, and llama.cpp takes 32 for llama"},
		{"llama", rope("yarn", m{"beta_slow": 2}), GGUF, "rope_scaling.beta_slow is 2, and llama.cpp takes 1 for llama"},
		{"llama", rope("yarn", m{"truncate": false}), both, "rope_scaling.truncate is false, and"},
		{"llama", rope("yarn", m{"mscale": 0.8, "mscale_all_dim": 0.8}), GGUF, "rope_scaling.mscale is 0.8, and llama.cpp takes none"},
		{"llama", rope("yarn", m{"mscale": 0.8}), both, "rope_scaling.mscale is 0.8, and"},
		{"llama", rope("yarn", m{"attention_factor": 1.1}), both, "attention_factor is 1.1, and"},
		{"llama", m{"num_hidden_layers": 513}, GGUF, "num_hidden_layers is 513, and llama.cpp takes at most 512"},
		{"llama", rope("dynamic", nil), GGUF, "rope_type is dynamic, and GGUF files of llama have no key for it"},
		{"llama", rope("dynamic", nil), MLX, "rope_scaling.rope_type is dynamic, and mlx-lm takes default or linear or llama3 or yarn"},
		{"mixtral", m{"sliding_window": 7}, both, "sliding_window is 7, and"},
		{"mixtral", m{"head_dim": 8}, MLX, "head_dim is 8, and mlx-lm takes hidden_size/num_attention_heads"},
		{"mixtral", rope("linear", nil), MLX, "rope_scaling.rope_type is linear, and mlx-lm takes default"},
		{"mixtral", rope("llama3", nil), both, "rope_scaling.rope_type is llama3, and"},
		{"olmoe", m{"clip_qkv": 0.4}, both, "clip_qkv is 0.4, and"},
		{"olmoe", m{"clip_qkv": nil, "norm_topk_prob": true}, GGUF, "norm_topk_prob is true, and llama.cpp takes false for olmoe"},
		{"olmoe", m{"clip_qkv": nil, "tie_word_embeddings": true}, GGUF, "tie_word_embeddings is true, and llama.cpp takes false"},
		{"olmoe", m{"clip_qkv": nil, "num_key_value_heads": 2}, GGUF, "num_key_value_heads is 2, and llama.cpp takes num_attention_heads"},
		{"qwen2_moe", m{"norm_topk_prob": true}, both, "norm_topk_prob is true, and"},
		{"qwen2_moe", m{"decoder_sparse_step": 2}, both, "decoder_sparse_step is 2, and"},
		{"qwen2_moe", m{"mlp_only_layers": []int{1}}, both, "mlp_only_layers is [1], and"},
		{"qwen2_moe", m{"qkv_bias": false}, MLX, "qkv_bias is false, and mlx-lm takes true"},
		{"qwen2_moe", m{"tie_word_embeddings": true}, both, "tie_word_embeddings is true, and"},
		{"qwen2_moe", rope("yarn", nil), MLX, "rope_scaling.rope_type is yarn, and mlx-lm takes default"},
		{"qwen2_moe", m{"head_dim": 6}, both, "head_dim is 6, and"},
		{"olmoe", m{"clip_qkv": nil, "attention_bias": true}, GGUF, "attention_bias is true, and llama.cpp takes false"},
		{"qwen3_moe", m{"mlp_only_layers": nil, "attention_bias": true}, both, "attention_bias is true, and"},
		{"qwen3", m{"use_sliding_window": true, "sliding_window": 7, "layer_types": nil, "max_window_layers": 0}, GGUF, "use_sliding_window is true, and GGUF files of qwen3 have no key for it"},
		{"qwen3", m{"use_sliding_window": true, "sliding_window": 7, "layer_types": nil, "max_window_layers": 0}, MLX, "use_sliding_window is true, which mlx-lm does not read for qwen3"},
		{"qwen3", m{"attention_bias": true}, both, "attention_bias is true, and"},
		{"qwen3_moe", m{"mlp_only_layers": nil, "norm_topk_prob": false}, GGUF, "norm_topk_prob is false, and llama.cpp takes true"},
		{"qwen3_moe", m{"mlp_only_layers": []int{0}}, GGUF, "mlp_only_layers is [0], and llama.cpp takes none"},
		{"qwen3_moe", rope("yarn", m{}), MLX, "rope_scaling.rope_type is yarn, and mlx-lm takes default"},
		{"gpt_oss", m{"rope_parameters": plain, "swiglu_limit": 2}, both, "swiglu_limit is 2, and"},
		{"gpt_oss", m{"rope_parameters": plain, "swiglu_limit": 7, "swiglu_alpha": 1.5}, both, "swiglu_alpha is 1.5, and"},
		{"gpt_oss", m{"rope_parameters": plain, "swiglu_limit": 7, "attention_bias": false}, both, "attention_bias is false, and"},
		{"gpt_oss", m{"rope_parameters": plain, "swiglu_limit": 7, "tie_word_embeddings": true}, both, "tie_word_embeddings is true, and"},
		{"gpt_oss", m{"rope_parameters": plain, "swiglu_limit": 7, "layer_types": []string{"full_attention", "sliding_attention"}}, GGUF, "layer_types is [full_attention sliding_attention], and GGUF files of gpt-oss have no key for it"},
		{"gpt_oss", m{"rope_parameters": plain, "swiglu_limit": 7, "layer_types": []string{"full_attention", "full_attention"}}, MLX, "layer_types is [full_attention full_attention], and mlx-lm takes layers of both kinds"},
		{"glm4_moe", m{"tie_word_embeddings": true}, MLX, "tie_word_embeddings is true, and mlx-lm takes false"},
		{"glm4_moe", rope("yarn", nil), MLX, "rope_scaling.rope_type is yarn, and mlx-lm takes default"},
		{"glm4_moe", m{"num_experts_per_tok": 1}, MLX, "norm_topk_prob is true, and mlx-lm takes false where a token uses one expert"},
		{"glm4_moe", m{"n_shared_experts": 0}, GGUF, "n_shared_experts is 0, and llama.cpp takes at least 1"},
		{"glm4_moe", m{"n_shared_experts": nil}, GGUF, "n_shared_experts is absent, and llama.cpp takes at least 1"},
		{"glm4_moe", m{"n_group": 2, "topk_group": 2}, GGUF, "topk_group is 2, and llama.cpp takes less than n_group"},
		{"deepseek_v2", m{"rope_parameters": plain, "q_lora_rank": 7}, MLX, "rope_scaling.rope_type is absent, and mlx-lm takes yarn"},
		{"deepseek_v2", rope("yarn", m{"mscale": 0.7, "mscale_all_dim": 0.7}), GGUF, "q_lora_rank is absent, and llama.cpp takes 0 in models of 26 or 27 layers, and above 0 in others"},
		{"deepseek_v2_groups", rope("yarn", m{"mscale": 0.7, "mscale_all_dim": 0.7}), GGUF, "n_group is 3, and llama.cpp takes 1"},
		{"deepseek_v3", rope("yarn", m{"mscale_all_dim": 1}), GGUF, "rope_scaling.mscale_all_dim is 1, and llama.cpp takes a number above 0 that mscale is equal to"},
		{"deepseek_v3", rope("yarn", nil), GGUF, "rope_scaling.mscale_all_dim is absent, and llama.cpp takes a number above 0"},
		{"deepseek_v3", rope("linear", nil), GGUF, "rope_scaling.rope_type is linear, and llama.cpp takes default or yarn"},
		{"deepseek_v3", m{"rope_interleave": false, "rope_parameters": plain}, both, "rope_interleave is false, and"},
		{"deepseek_v3", m{"attention_bias": true, "rope_parameters": plain}, GGUF, "attention_bias is true, and llama.cpp takes false"},
		{"deepseek_v3", m{"rms_norm_eps": 1e-4, "rope_parameters": plain}, GGUF, "rms_norm_eps is 0.0001, and llama.cpp takes 1e-05 at most"},
		{"deepseek_v2", m{"rms_norm_eps": 1e-4, "rope_parameters": plain, "q_lora_rank": 7}, GGUF, "rms_norm_eps is 0.0001, and llama.cpp takes 1e-05 at most"},
		{"deepseek_v3", m{"num_hidden_layers": 62, "rope_parameters": plain}, MLX, "num_hidden_layers is 62, and mlx-lm takes at most 61"},
	} {
		if _, ok := c.settings["rms_norm_eps"]; !ok && strings.HasPrefix(c.name, "deepseek") {
			c.settings["rms_norm_eps"] = 1e-6
		}
		src := configured(t, c.name, c.settings)
		for _, layout := range []Layout{GGUF, MLX} {
			j := opened(t, src, layout)
			err := j.heeded()
			if err == nil && layout == GGUF {
				_, err = j.newKeys("x")
			}
			if c.layout == layout || c.layout == both {
				require.ErrorContains(t, err, c.want, "%s to %s", c.name, layout)
			} else if err != nil {
				require.NotContains(t, err.Error(), c.want, "%s to %s", c.name, layout)
			}
		}
	}
}

// opened returns a conversion of which the model is open.
func opened(t *testing.T, src string, l Layout) *conversion {
	t.Helper()
	c, err := checkpoint.Open(src)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	m, err := models.Open(c)
	require.NoError(t, err)
	return &conversion{ctx: context.Background(), o: Options{Layout: l}, c: c, m: m}
}

// mlx-lm reads neither the names that transformers 5 writes nor what a file leaves to transformers' defaults.
func TestSpelling(t *testing.T) {
	for name, want := range map[string]map[string]any{
		"qwen3_moe": {"num_experts": 5, "num_local_experts": nil, "rope_theta": 1000.0, "rope_parameters": nil, "rope_scaling": nil, "mlp_only_layers": []any{0}, "decoder_sparse_step": 1, "tie_word_embeddings": false},
		"glm4_moe":  {"n_routed_experts": 4, "partial_rotary_factor": 0.5, "rope_theta": 1000.0, "n_group": 1, "use_qk_norm": true, "first_k_dense_replace": 1},
		"llama": {"rope_scaling": map[string]any{"rope_type": "llama3", "factor": 4, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 32},
			"tie_word_embeddings": false},
		"deepseek_v2": {"q_lora_rank": nil, "rope_scaling": map[string]any{"rope_type": "yarn", "factor": 4, "beta_fast": 4, "beta_slow": 1, "mscale": 0.7, "mscale_all_dim": 0.7, "original_max_position_embeddings": 24, "truncate": true}},
	} {
		src := configured(t, name, map[string]any{"tie_word_embeddings": nil, "num_nextn_predict_layers": nil})
		path := filepath.Join(t.TempDir(), "mlx")
		require.NoError(t, Model(context.Background(), path, src, Options{Layout: MLX}))
		text, err := os.ReadFile(filepath.Join(path, checkpoint.ConfigName))
		require.NoError(t, err)
		var got map[string]any
		require.NoError(t, json.Unmarshal(text, &got))
		for key, value := range want {
			require.Equal(t, fmt.Sprint(value), fmt.Sprint(got[key]), "%s: %s", name, key)
		}
		require.Equal(t, greedy(t, src), greedy(t, path))
	}
	// A list that is null is an empty one, which mlx-lm wants.
	src := made(t, "qwen3_moe", map[string]any{"mlp_only_layers": nil}, nil)
	path := filepath.Join(t.TempDir(), "mlx")
	require.NoError(t, Model(context.Background(), path, src, Options{Layout: MLX}))
	text, err := os.ReadFile(filepath.Join(path, checkpoint.ConfigName))
	require.NoError(t, err)
	require.Contains(t, string(text), `"mlp_only_layers": []`)
}

// A model without layers of one network says so in a GGUF file, which opens again.
func TestNoDenseLayers(t *testing.T) {
	for _, name := range []string{"deepseek_v3", "glm4_moe"} {
		settings := map[string]any{"first_k_dense_replace": 0, "num_nextn_predict_layers": 0, "n_group": 1, "topk_group": 1}
		if name == "deepseek_v3" {
			settings["rope_parameters"], settings["rms_norm_eps"] = rope("default", nil)["rope_parameters"], 1e-6
		}
		src, out := made(t, name, settings, nil), t.TempDir()
		want := greedy(t, src)
		for i, next := range []string{"a.gguf", "folder", "mlx", "b.gguf"} {
			o := Options{Layout: LayoutOf(next)}
			if next == "mlx" {
				o.Layout = MLX
			}
			next = filepath.Join(out, next)
			require.NoError(t, Model(context.Background(), next, src, o), "step %d", i)
			require.Equal(t, want, greedy(t, next), next)
			src = next
		}
	}
}

// mlx-lm gives experts outside of the best groups the score 0, above which negative biases need not leave enough experts.
func TestGroupsOfMLX(t *testing.T) {
	for least, want := range map[float32]string{-0.5: "mlx-lm may choose experts outside of the 1 best groups of 2: 1 of their experts are sure to have a score above 0, want 2", 0: ""} {
		src := made(t, "glm4_moe", map[string]any{"num_nextn_predict_layers": 0, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2}, func(name string, x []float32) {
			if strings.HasSuffix(name, "e_score_correction_bias") {
				copy(x, []float32{0.25, 0, least, 1})
			}
		})
		err := Model(context.Background(), filepath.Join(t.TempDir(), "mlx"), src, Options{Layout: MLX})
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
		require.NoError(t, Model(context.Background(), filepath.Join(t.TempDir(), "m.gguf"), src, Options{Layout: GGUF}))
	}
}
