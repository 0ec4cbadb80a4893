package models

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
)

// Models as mlx-lm quantises them have mlx-lm's logits, from the words and from the numbers that these stand for, and the same
// bits on meshes that split their experts or tokens. Products with MXFP4's blocks round rows to int8.
func TestMLX(t *testing.T) {
	for name, mesh := range map[string]string{"qwen3_moe": "ep=5", "deepseek_v3": "dp=2,ep=2", "mixtral": "ep=3", "gpt_oss": "ep=3"} {
		name = "mlx/" + name
		c, m, want := openTest(t, name)
		quantised := 0
		for _, p := range paramsOf(t, c, m) {
			if p.Affine != (nn.Affine{}) || p.Type.DType == graph.MXFP4 {
				quantised++
			}
		}
		require.Greater(t, quantised, 6)
		got := logitsOf(t, c, m, "", want.Tokens)
		require.True(t, array.Equal(got, logitsOf(t, c, m, mesh, want.Tokens)), "%s on %s", name, mesh)
		numbers, n := withNumbers(t, name)
		isNear(t, "numbers of "+name, n.Vocab, logitsOf(t, numbers, n, "", want.Tokens), want)
		if name != "mlx/gpt_oss" {
			isNear(t, name, m.Vocab, got, want)
			continue
		}
		largest, sum, count := 0.0, 0.0, 0.0
		for i, x := range array.Data[float32](got) {
			y := float64(want.Logits[i/(12*m.Vocab)][i/m.Vocab%12][i%m.Vocab])
			largest, sum, count = math.Max(largest, math.Abs(y)), sum+(float64(x)-y)*(float64(x)-y), count+1
		}
		if off := math.Sqrt(sum / count); !(off < 0.03*largest) {
			t.Errorf("%s: logits are off by %g of the largest, %g", name, off/largest, largest)
		}
	}
}

// Every layer reads its own part of what is quantised, and files that say it wrongly are refused by tensor and setting.
func TestMLXRefuses(t *testing.T) {
	const gate = "model.layers.1.mlp.switch_mlp.up_proj"
	edit := func(name string, d graph.DType, shape ...int) func([]tensor.Source) []tensor.Source {
		return func(ts []tensor.Source) (out []tensor.Source) {
			for _, s := range ts {
				if s.Name != name {
					out = append(out, s)
				}
			}
			if d != graph.NoDType {
				out = append(out, tensor.Of(name, array.New(graph.T(d, shape...))))
			}
			return out
		}
	}
	replace := func(pairs ...string) func(string) string {
		return func(s string) string { return strings.NewReplacer(pairs...).Replace(s) }
	}
	for _, c := range []struct {
		model   string
		tensors func([]tensor.Source) []tensor.Source
		config  func(string) string
		want    string
	}{
		{"qwen3_moe", nil, nil, ""},
		{"qwen3_moe", edit(gate+".scales", graph.NoDType), nil, gate + `.weight" has elements U32, as MLX quantises matrices, and no tensor of scales is beside it`},
		{"qwen3_moe", edit(gate+".biases", graph.NoDType), nil, `there is no tensor "` + gate + `.biases"`},
		{"qwen3_moe", edit(gate+".biases", graph.F32, 5, 32, 1), nil, gate + `.biases" has shape [5 32 1], want [5 32 2]`},
		{"qwen3_moe", edit(gate+".biases", graph.F16, 5, 32, 2), nil, gate + `.biases" has elements F16, want numbers of f32, f16 or bf16, of one type for scales and biases`},
		{"qwen3_moe", edit(gate+".scales", graph.I32, 5, 32, 2), nil, gate + `.scales" has elements I32, want numbers of f32, f16 or bf16`},
		{"qwen3_moe", edit(gate+".weight", graph.F32, 5, 32, 64), nil, gate + `.weight" has elements F32, want U32 as MLX quantises matrices`},
		{"qwen3_moe", edit(gate+".weight", graph.U32, 5, 32, 16), nil, gate + `.weight" has shape [5 32 16], want [5 32 8]`},
		{"qwen3_moe", edit("model.norm.scales", graph.F32, 1), nil, `tensor "model.norm.weight" has elements F32, want U32`},
		{"qwen3_moe", nil, replace(`"bits": 4`, `"bits": 3`), `.weight": bits is 3, want 4 or 8`},
		{"qwen3_moe", nil, replace(`"bits": 4`, `"bits": 8`), `has shape [40 8], want [40 16]`},
		{"qwen3_moe", nil, replace(`"group_size": 32`, `"group_size": 16`), `group_size is 16, want 32, 64 or 128`},
		{"qwen3_moe", nil, replace(`"group_size": 32`, `"group_size": 128`), `want rows of a multiple of 128`},
		{"qwen3_moe", nil, replace(`"mode": "affine"`, `"mode": "nvfp4"`), `is quantised in mode "nvfp4", want affine or mxfp4`},
		{"qwen3_moe", nil, replace(`"group_size": 32,`, ``), `config.json: quantization.group_size is missing`},
		{"qwen3_moe", nil, replace(`"quantization": {`, `"quantization": {"model.layers.1.self_attn.k_proj": false, `), `quantization_config says something else than quantization`},
		{"qwen3_moe", nil, replace(`"group_size": 32`, `"model.layers.1.self_attn.k_proj": false, "group_size": 32`), `quantization.model.layers.1.self_attn.k_proj is false, and the layer has the tensor model.layers.1.self_attn.k_proj.scales`},
		{"qwen3_moe", nil, replace(`"group_size": 32`, `"model.layers.1.self_attn.k_proj": true, "group_size": 32`), ``},
		{"qwen3_moe", nil, replace(`"group_size": 32`, `"model.layers.1.self_attn.k_proj": 4, "group_size": 32`), `model.layers.1.self_attn.k_proj is "4", want an object`},
		{"qwen3_moe", nil, replace(`"group_size": 32`, `"scale": 4, "group_size": 32`), `config.json: quantization has "scale", want bits, group_size, mode or the name of a layer`},
		{"qwen3_moe", nil, replace(`"quantization": {`, `"quantisation": {`), `quantization_config: the weights are quantised by ""`},
		{"gpt_oss", edit("model.layers.0.mlp.experts.up_proj.scales", graph.F32, 3, 32, 2), nil, `has elements F32, want U8`},
		{"gpt_oss", edit("model.layers.0.mlp.experts.up_proj.scales", graph.U8, 3, 32, 1), nil, `has shape [3 32 1], want [3 32 2]`},
		{"gpt_oss", nil, replace(`"bits": 4`, `"bits": 8`), `is quantised in mode mxfp4 with bits 8 and group_size 32, want 4 and 32`},
	} {
		err := load(changed(t, "mlx/"+c.model, c.tensors, c.config))
		if c.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}
