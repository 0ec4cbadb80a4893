package models

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
)

// changed writes the model of testdata again with other tensors and another config.json.
func changed(t *testing.T, name string, tensors func([]tensor.Source) []tensor.Source, config func(string) string) string {
	t.Helper()
	c, err := checkpoint.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer c.Close()
	var ts []tensor.Source
	for _, x := range c.Tensors {
		a, err := x.Array()
		require.NoError(t, err)
		ts = append(ts, tensor.Of(x.Name, a.Clone()))
	}
	if tensors != nil {
		ts = tensors(ts)
	}
	text, err := os.ReadFile(filepath.Join("testdata", name, checkpoint.ConfigName))
	require.NoError(t, err)
	if config != nil {
		text = []byte(config(string(text)))
	}
	dir := t.TempDir()
	require.NoError(t, safetensors.Write(filepath.Join(dir, safetensors.FileName), nil, ts))
	require.NoError(t, os.WriteFile(filepath.Join(dir, checkpoint.ConfigName), text, 0o666))
	return dir
}

// load opens a model, traces it, and looks for what is left over.
func load(path string) error {
	c, err := checkpoint.Open(path)
	if err != nil {
		return err
	}
	defer c.Close()
	m, err := Open(c)
	if err != nil {
		return err
	}
	var params []nn.Param
	_, err = graph.Trace("model", func(t *graph.Tracer) []*graph.Value {
		s := nn.New(t, nn.Options{DType: DType(c), Stored: Stored(c)})
		out := m.Forward(s, t.Input("tokens", graph.I32, 1, 4), &nn.Step{})
		params = s.Params()
		return []*graph.Value{out}
	})
	if err != nil {
		return err
	}
	return Surplus(c, params)
}

func TestRefuses(t *testing.T) {
	without := func(name string) func([]tensor.Source) []tensor.Source {
		return func(ts []tensor.Source) (out []tensor.Source) {
			for _, s := range ts {
				if s.Name != name {
					out = append(out, s)
				}
			}
			return out
		}
	}
	with := func(extra tensor.Source) func([]tensor.Source) []tensor.Source {
		return func(ts []tensor.Source) []tensor.Source { return append(without(extra.Name)(ts), extra) }
	}
	replace := func(from, to string) func(string) string {
		return func(s string) string { return strings.Replace(s, from, to, 1) }
	}
	zeros := func(name string, d graph.DType, shape ...int) tensor.Source {
		return tensor.Of(name, array.New(graph.T(d, shape...)))
	}
	for _, c := range []struct {
		model   string
		tensors func([]tensor.Source) []tensor.Source
		config  func(string) string
		want    string
	}{
		{"olmoe", nil, nil, ""},
		{"olmoe", with(zeros("model.layers.1.self_attn.q_proj.weight", graph.I32, 16, 16)), nil, `tensor "model.layers.1.self_attn.q_proj.weight" has elements I32, want floats, 8-bit floats or blocks`},
		{"olmoe", with(zeros("model.layers.1.mlp.experts.5.up_proj.weight", graph.U8, 16, 16)), nil, `tensor "model.layers.1.mlp.experts.5.up_proj.weight" has elements U8, want floats`},
		{"olmoe", with(zeros("model.norm.weight", graph.Bool, 16)), nil, `tensor "model.norm.weight" has elements BOOL, want floats`},
		{"gpt_oss", with(zeros("model.layers.0.mlp.experts.gate_up_proj", graph.I32, 3, 16, 32)), nil, `tensor "model.layers.0.mlp.experts.gate_up_proj" has elements I32, want floats`},
		{"olmoe", func(ts []tensor.Source) (out []tensor.Source) {
			for _, s := range ts {
				s.Name = "language_model." + s.Name
				out = append(out, s)
			}
			return out
		}, nil, `there is no tensor "model.embed_tokens.weight"; there is "language_model.model.embed_tokens.weight", so names have another prefix: rename the tensors`},
		{"olmoe", func(ts []tensor.Source) (out []tensor.Source) {
			for _, s := range ts {
				s.Name = strings.TrimPrefix(s.Name, "model.")
				out = append(out, s)
			}
			return out
		}, nil, `there is no tensor "model.embed_tokens.weight"; there is "embed_tokens.weight", so names have another prefix`},
		{"deepseek_v2", func(ts []tensor.Source) (out []tensor.Source) { // as transformers saves a model without shared experts
			for _, s := range ts {
				if strings.Contains(s.Name, "shared_experts.down_proj") {
					s = tensor.Of(s.Name, array.New(graph.T(graph.F32, 16, 0)))
				} else if strings.Contains(s.Name, "shared_experts.") {
					s = tensor.Of(s.Name, array.New(graph.T(graph.F32, 0, 16)))
				}
				out = append(out, s)
			}
			return out
		}, replace(`"n_shared_experts": 2`, `"n_shared_experts": 0`), ""},
		{"olmoe", without("model.layers.1.mlp.experts.5.up_proj.weight"), nil, `there is no tensor "model.layers.1.mlp.experts.5.up_proj.weight"`},
		{"olmoe", without("model.layers.1.mlp.experts.0.up_proj.weight"), nil, `there is neither tensor "model.layers.1.mlp.experts.0.up_proj.weight" nor "model.layers.1.mlp.switch_mlp.up_proj.weight"`},
		{"olmoe", without("model.norm.weight"), nil, `parameter model.norm.weight: models: checkpoint: `},
		{"olmoe", with(zeros("model.layers.1.mlp.experts.8.up_proj.weight", graph.F32, 16, 16)), nil, `tensor "model.layers.1.mlp.experts.8.up_proj.weight" of F32[16 16] is no part of this architecture`},
		{"olmoe", with(zeros("model.layers.1.mlp.experts.5.up_proj.weight", graph.BF16, 16, 16)), nil, `tensor "model.layers.1.mlp.experts.5.up_proj.weight" has elements BF16, want F32 as that of expert 0`},
		{"mixtral", with(zeros("model.layers.1.block_sparse_moe.experts.5.w1.weight", graph.F32, 16, 24)), nil, `tensor "model.layers.1.block_sparse_moe.experts.5.w1.weight" has shape [16 24], want [24 16]`},
		{"olmoe", with(zeros("model.layers.0.self_attn.rotary_emb.inv_freq", graph.F32, 2)), nil, ""},
		{"olmoe", nil, replace(`"num_experts": 8`, `"num_experts": 9`), `tensor "model.layers.0.mlp.gate.weight" has shape [8 16], want [9 16]`},
		{"olmoe", nil, replace(`"num_experts": 8`, `"num_experts": 7`), `tensor "model.layers.0.mlp.gate.weight" has shape [8 16], want [7 16]`},
		{"olmoe", nil, replace(`"num_experts": 8`, `"num_experts": -8`), `num_experts is "-8", want an integer from 0 to 2147483647`},
		{"olmoe", nil, replace(`"vocab_size": 40`, `"vocab_size": 1e12`), `vocab_size is "1000000000000", want an integer from 0 to 2147483647`},
		{"olmoe", nil, replace(`"num_experts": 8`, `"none": 8`), `config.json: num_experts is missing`},
		{"olmoe", nil, replace(`"hidden_act": "silu"`, `"hidden_act": "gelu"`), `hidden_act is "gelu", want silu`},
		{"olmoe", nil, replace(`"rope_type": "default"`, `"rope_type": "axial"`), `the rotary positions are scaled by "axial", want one of default dynamic linear llama3 longrope yarn`},
		{"olmoe", nil, replace(`"rope_type": "default"`, `"rope_type": "dynamic"`), `rope_parameters.factor is 0 or missing, want a number above 0`},
		{"olmoe", nil, replace(`"rope_type": "default"`, `"rope_type": "longrope", "long_factor": [1, 2], "short_factor": [1]`), `rope_parameters.short_factor has 1 elements, want 2 numbers above 0`},
		{"olmoe", nil, replace(`"rope_type": "default"`, `"rope_type": "yarn"`), `rope_parameters.factor is 0 or missing, want a number above 0`},
		{"olmoe", nil, replace(`"rope_type": "default"`, `"rope_type": "default", "mrope_section": [1]`), `setting rope_parameters.mrope_section is not known and may change results`},
		{"glm4_moe", nil, replace(`"partial_rotary_factor": 0.5`, `"partial_rotary_factor": 0.2`), `1 of the 8 columns of a head are rotated, want an even number`},
		{"olmoe", nil, replace(`"rope_type": "default"`, `"rope_type": "default", "partial_rotary_factor": 0.5`), `partial_rotary_factor is 0.5, want 1`},
		{"olmoe", nil, replace(`"hidden_act"`, `"rope_scaling": {"rope_type": "linear", "factor": 2}, "hidden_act"`), `rope_parameters.rope_theta is 1000, and rope_scaling gives 10000; take one of the two objects out`},
		{"olmoe", nil, replace(`"hidden_act"`, `"rope_theta": 1000, "rope_scaling": {"rope_type": "linear", "factor": 2}, "hidden_act"`), `rope_parameters.rope_type is default, and rope_scaling gives linear; take one of the two objects out`},
		{"olmoe", nil, replace(`"rope_type": "default"`, `"rope_type": "default", "type": "linear", "factor": 2`), `rope_parameters.rope_type is default and rope_parameters.type is linear, which name the same setting`},
		{"olmoe", nil, replace(`"num_experts": 8`, `"num_experts": 8, "num_local_experts": 4`), `num_experts is 8 and num_local_experts is 4, which name the same setting`},
		{"olmoe", nil, replace(`"num_experts": 8`, `"num_experts": 8, "num_local_experts": 1e7`), `num_experts is 8 and num_local_experts is 10000000, which name the same setting`},
		{"qwen3", nil, replace(`"hidden_act"`, `"use_qk_norm": false, "hidden_act"`), `use_qk_norm is "false", want true`},
		{"mixtral", nil, replace(`"hidden_act"`, `"norm_topk_prob": false, "hidden_act"`), `norm_topk_prob is "false", want true`},
		{"llama", nil, replace(`"hidden_act"`, `"is_causal": false, "hidden_act"`), `is_causal is "false", want true`},
		{"llama", nil, replace(`"hidden_act"`, `"rope_interleaved": true, "hidden_act"`), `setting rope_interleaved is not known for architecture "llama" and may change results`},
		{"llama", nil, replace(`"hidden_act"`, `"layer_types": ["full_attention", "full_attention"], "hidden_act"`), ``},
		{"llama", nil, replace(`"hidden_act"`, `"layer_types": ["full_attention", "sliding_attention"], "hidden_act"`), `setting layer_types is not known for architecture "llama"`},
		{"llama", nil, replace(`"rope_type": "llama3"`, `"rope_type": "llama3", "extrapolation_factor": 1`), ``},
		{"llama", nil, replace(`"rope_type": "llama3"`, `"rope_type": "llama3", "extrapolation_factor": 2`), `rope_parameters.extrapolation_factor is "2", want 1`},
		{"llama", nil, replace(`"hidden_act"`, `"sliding_window": 4096, "hidden_act"`), `setting sliding_window is not known for architecture "llama" and may change results`},
		{"olmoe", nil, replace(`"hidden_act"`, `"logit_offset": 0.5, "hidden_act"`), `setting logit_offset is not known for architecture "olmoe" and may change results`},
		{"olmoe", nil, replace(`"hidden_act"`, `"quantization_config": {"quant_method": "gptq"}, "hidden_act"`), `the weights are quantised by "gptq", want fp8 or mxfp4; gomoe opens no other such weights of architecture "olmoe"`},
		{"deepseek_v3_fp8", nil, replace(`"e4m3"`, `"e5m2"`), `quantization_config.fmt is "e5m2", want e4m3`},
		{"deepseek_v3_fp8", nil, replace(`"quant_method": "fp8"`, `"quant_method": "fp8", "zero_point": true`), `setting quantization_config.zero_point is not known`},
		{"deepseek_v3_fp8", nil, replace("128", "64"), `quantization_config.weight_block_size is "[64 128]", want [128 128]`},
		{"deepseek_v3_fp8", without("model.layers.1.mlp.experts.2.up_proj.weight_scale_inv"), nil, `there is no tensor "model.layers.1.mlp.experts.2.up_proj.weight_scale_inv"`},
		{"deepseek_v3_fp8", without("model.layers.1.self_attn.o_proj.weight_scale_inv"), nil, `there is no tensor "model.layers.1.self_attn.o_proj.weight_scale_inv"`},
		{"deepseek_v3_fp8", with(zeros("model.layers.1.self_attn.o_proj.weight_scale_inv", graph.F32, 1, 1)), nil, `has shape [1 1], want [2 1]`},
		{"gpt_oss", with(zeros("model.layers.0.mlp.experts.gate_up_proj", graph.F32, 3, 32, 16)), nil, `tensor "model.layers.0.mlp.experts.gate_up_proj" has shape [3 32 16], want [3 16 32]`},
		{"gpt_oss", without("model.layers.0.mlp.experts.gate_up_proj_bias"), nil, `there is neither tensor "model.layers.0.mlp.experts.0.gate_proj.bias" nor "model.layers.0.mlp.switch_mlp.gate_proj.bias"`},
		{"gpt_oss", without("model.layers.1.self_attn.sinks"), nil, `there is no tensor "model.layers.1.self_attn.sinks"`},
		{"gpt_oss", nil, replace(`"sliding_attention"`, `"chunked_attention"`), `layer_types has "chunked_attention" for layer 0, want sliding_attention or full_attention`},
		{"llama", nil, replace(`"head_dim": 6`, `"head_dim": 2147483646`), `heads of 2147483646 columns, want at most 65536`},
		{"gpt_oss", nil, replace(`"num_hidden_layers": 2`, `"num_hidden_layers": 2147483647`), `2147483647 layers, want at most 65536`},
		{"gpt_oss", nil, replace(`"sliding_attention",`, ``), `layer_types has 1 of 2 layers`},
		{"gpt_oss", nil, replace(`"swiglu_alpha"`, `"experts_per_token": 3, "swiglu_alpha"`), `experts_per_token is "3", want 2`},
		{"gpt_oss_mxfp4", without("model.layers.1.mlp.experts.down_proj_scales"), nil, `there is no tensor "model.layers.1.mlp.experts.down_proj_scales"`},
		{"gpt_oss_mxfp4", with(zeros("model.layers.1.mlp.experts.down_proj_scales", graph.U8, 3, 32, 2)), nil, `tensor "model.layers.1.mlp.experts.down_proj_scales" has shape [3 32 2], want [3 32 1]`},
		{"gpt_oss_mxfp4", with(zeros("model.layers.1.mlp.experts.down_proj_blocks", graph.F32, 3, 32, 1, 16)), nil, `tensor "model.layers.1.mlp.experts.down_proj_blocks" has elements F32, want U8`},
		{"gpt_oss_mxfp4", with(zeros("model.layers.1.mlp.experts.down_proj", graph.F32, 3, 32, 32)), nil, `tensor "model.layers.1.mlp.experts.down_proj_blocks" of U8[3 32 1 16] is no part`},
		{"deepseek_v3", with(zeros("model.layers.2.eh_proj.weight", graph.F32, 16, 32)), nil, ``},
		{"deepseek_v3", with(zeros("model.layers.3.eh_proj.weight", graph.F32, 16, 32)), nil, `tensor "model.layers.3.eh_proj.weight" of F32[16 32] is no part`},
		{"deepseek_v3", nil, replace(`"n_group": 4`, `"n_group": 3`), `8 experts in 3 groups, want equal groups`},
		{"deepseek_v3", nil, replace(`"rope_interleave": true`, `"scoring_func": "softmax"`), `scoring_func is "softmax", want sigmoid`},
		{"deepseek_v2", nil, replace(`"topk_method": "greedy"`, `"topk_method": "noaux_tc"`), `topk_method is "noaux_tc", want greedy or group_limited_greedy`},
		{"deepseek_v2", nil, replace(`"norm_topk_prob": false`, `"norm_topk_prob": true`), `norm_topk_prob is "true", want false`},
		{"qwen3", nil, replace(`"full_attention"`, `"sliding_attention"`), `layer_types has "sliding_attention" for layer 0, and the model has no window; want full_attention`},
		{"qwen3", nil, replace(`"full_attention"`, `3`), `want a list of the kinds of attention of the layers`},
		{"qwen2_moe", nil, replace(`"decoder_sparse_step": 1`, `"decoder_sparse_step": 2`), `there is no tensor "model.layers.0.mlp.gate_proj.weight"`},
		{"qwen2_moe", nil, replace(`"qkv_bias": true`, `"qkv_bias": false`), `tensor "model.layers.0.self_attn.k_proj.bias" of F32[8] is no part`},
		{"llama", nil, replace(`"mlp_bias": false`, `"mlp_bias": true`), `mlp_bias is "true", want false`},
		{"mixtral_tied", func(ts []tensor.Source) []tensor.Source {
			i := slices.IndexFunc(ts, func(s tensor.Source) bool { return s.Name == "model.embed_tokens.weight" })
			ts[i].Name = "lm_head.weight"
			return ts
		}, nil, ""},
		{"olmoe", without("model.embed_tokens.weight"), nil, `there is no tensor "model.embed_tokens.weight"`},
		{"mixtral_tied", with(zeros("lm_head.weight", graph.F32, 40, 16)), nil, `tie_word_embeddings is true, and the tensor differs from the table; set it to false`},
		{"olmoe", nil, replace(`"rms_norm_eps": 1e-05`, `"rms_norm_eps": -1`), `rms_norm_eps is -1, want a number above 0`},
		{"olmoe", nil, replace(`"rope_theta": 1000.0`, `"rope_theta": -1`), `rope_theta is -1, want a number above 0`},
		{"olmoe", nil, replace(`"num_experts_per_tok": 3`, `"num_experts_per_tok": 9`), `a token uses 9 of 8 experts, want at most as many`},
		{"mixtral", nil, replace(`"num_key_value_heads": 2`, `"num_key_value_heads": 3`), `4 heads over 3 heads of Keys want a multiple`},
		{"olmoe", nil, replace(`"model_type": "olmoe"`, `"model_type": "olmo"`), `architecture "olmo", want one of deepseek_v2 deepseek_v3 glm4_moe gpt_oss llama mixtral olmoe qwen2_moe qwen3 qwen3_moe; did you mean olmoe?`},
		{"olmoe", nil, func(string) string { return "{}" }, `nothing says what the model's architecture is: want config.json beside it`},
	} {
		err := load(changed(t, c.model, c.tensors, c.config))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("error %v\nwant %q", err, c.want)
		}
	}
}

// The same model in MLX's layout gives the same weights.
func TestLayouts(t *testing.T) {
	c, m, _ := openTest(t, "olmoe")
	var mlx []tensor.Source
	for _, p := range paramsOf(t, c, m) {
		w, err := Find(c, p)
		require.NoError(t, err)
		a, err := w.Array()
		require.NoError(t, err)
		mlx = append(mlx, tensor.Of(strings.Replace(p.Name, "experts.*.", "switch_mlp.", 1), a))
	}
	dir := t.TempDir()
	require.NoError(t, safetensors.Write(filepath.Join(dir, "model.safetensors"), nil, mlx))
	config, err := os.ReadFile("testdata/olmoe/config.json")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o666))
	other, err := checkpoint.Open(dir)
	require.NoError(t, err)
	defer other.Close()
	for _, p := range paramsOf(t, other, m) {
		want, err := Find(c, p)
		require.NoError(t, err)
		got, err := Find(other, p)
		require.NoError(t, err)
		a, err := want.Array()
		require.NoError(t, err)
		b, err := got.Array()
		require.NoError(t, err)
		if !array.Equal(a, b) {
			t.Errorf("%s differs", p.Name)
		}
	}
}
