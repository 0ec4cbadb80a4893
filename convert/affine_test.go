package convert

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/quant"
)

// numbers returns the numbers f32 that the parameters of a model stand for.
func numbers(t *testing.T, path string) map[string]array.Array {
	t.Helper()
	c, _, params := open(t, path)
	all := map[string]array.Array{}
	for _, p := range params {
		if p.Scales {
			continue
		}
		w, err := models.Find(c, p)
		require.NoError(t, err)
		a, err := w.Numbers().Array()
		require.NoError(t, err)
		all[p.Name] = a.As(graph.F32)
	}
	return all
}

// A folder that is quantised for MLX has quant's words of the numbers, opens, says how it is quantised, and leaves out routers,
// norms and rows that are no whole groups.
func TestAffine(t *testing.T) {
	src := wide(t, nil) // rows of 256, and of 96
	want := numbers(t, src)
	for _, q := range []nn.Affine{{Bits: 4, GroupSize: 64}, {Bits: 8, GroupSize: 32}} {
		out := filepath.Join(t.TempDir(), "m")
		require.NoError(t, Model(context.Background(), out, src, Options{Layout: MLX, Affine: q, Type: graph.BF16}))
		c, _, params := open(t, out)
		quantised := 0
		for _, p := range params {
			if p.Affine == (nn.Affine{}) {
				continue
			}
			quantised++
			require.Equal(t, q, p.Affine, p.Name)
			w, err := models.Find(c, p)
			require.NoError(t, err)
			got, err := w.Array()
			require.NoError(t, err)
			x := array.Data[float32](want[p.Name])
			words, side := make([]uint32, len(x)*q.Bits/32), make([]float32, len(x)/q.GroupSize)
			quant.QuantizeAffine(words, side, make([]float32, len(side)), x, q.Bits, q.GroupSize)
			require.Equal(t, words, array.Data[uint32](got), p.Name)
			s, err := c.Tensor(strings.TrimSuffix(models.MLXName(p), "weight") + "scales")
			require.NoError(t, err)
			require.Equal(t, graph.BF16, s.Type.DType)
		}
		all := 2*7 + 2 // of two layers, and the head and the table of tokens
		if q.GroupSize == 64 {
			all -= 2 // down, with rows of 96
		}
		require.Equal(t, all, quantised)
		text, err := os.ReadFile(filepath.Join(out, checkpoint.ConfigName))
		require.NoError(t, err)
		var config map[string]any
		require.NoError(t, json.Unmarshal(text, &config))
		require.Equal(t, map[string]any{"bits": float64(q.Bits), "group_size": float64(q.GroupSize), "mode": "affine"}, config["quantization"])
		require.Equal(t, config["quantization"], config["quantization_config"])
		require.Len(t, greedy(t, out), 24)
	}
	for want, o := range map[string]Options{
		"quantisation in groups is for layout mlx, and gguf is asked for":                      {Layout: GGUF, Affine: nn.Affine{Bits: 4, GroupSize: 64}},
		"quantisation to 3 bits in groups of 64, want 4 or 8 bits and groups of 32, 64 or 128": {Layout: MLX, Affine: nn.Affine{Bits: 3, GroupSize: 64}},
	} {
		require.ErrorContains(t, Model(context.Background(), filepath.Join(t.TempDir(), "out"), src, o), want)
	}
	large := wide(t, func(name string, x []float32) {
		if strings.HasSuffix(name, "layers.1.self_attn.o_proj.weight") {
			x[300] = 7e4
		}
	})
	require.ErrorContains(t, Model(context.Background(), filepath.Join(t.TempDir(), "out"), large, Options{Layout: MLX, Type: graph.F16, Affine: nn.Affine{Bits: 4, GroupSize: 64}}),
		"o_proj.weight: the number 70000, which elements of f16 cannot be")
}

// A set of files that mlx-lm has quantised, with words, scales and biases of a matrix in different files, is the model in one.
func TestShardedMLX(t *testing.T) {
	for _, name := range []string{"qwen3_moe", "deepseek_v3", "mixtral"} {
		src := folderOf(t, "mlx/"+name)
		want, tokens := numbers(t, src), greedy(t, src)
		c, _, _ := open(t, src)
		var sources []tensor.Source
		total := int64(0)
		for _, x := range c.Tensors {
			a, err := x.Array()
			require.NoError(t, err)
			sources, total = append(sources, tensor.Of(x.Name, a)), total+a.Type.Bytes()
		}
		set := folderOf(t, "mlx/"+name)
		require.NoError(t, os.Remove(filepath.Join(set, safetensors.FileName)))
		require.NoError(t, safetensors.WriteSet(set, map[string]string{"format": "mlx"}, sources, total/9))
		in, apart := map[string]string{}, 0
		cs, _, _ := open(t, set)
		require.GreaterOrEqual(t, len(cs.Files), 9)
		for _, x := range cs.Tensors {
			in[x.Name] = x.File
		}
		for name, file := range in {
			if base, ok := strings.CutSuffix(name, ".scales"); ok && in[base+".weight"] != file {
				apart++
			}
		}
		require.NotZero(t, apart)
		got := numbers(t, set)
		require.Len(t, got, len(want))
		for p, x := range want {
			require.True(t, array.Equal(x, got[p]), "%s: %s", name, p)
		}
		require.Equal(t, tokens, greedy(t, set))
		out := filepath.Join(t.TempDir(), "out")
		require.NoError(t, Model(context.Background(), out, set, Options{Layout: MLX}))
		require.Equal(t, tokens, greedy(t, out))
	}
}

// Models that mlx-lm has quantised stay as they are in MLX's layout, and everywhere else become the numbers that they stand for:
// in f32 the same ones, with the same tokens.
func TestFromMLX(t *testing.T) {
	for _, name := range []string{"qwen3_moe", "deepseek_v3", "mixtral"} {
		src := folderOf(t, "mlx/"+name)
		want, tokens := numbers(t, src), greedy(t, src)
		out := t.TempDir()
		same := filepath.Join(out, "same")
		require.NoError(t, Model(context.Background(), same, src, Options{Layout: MLX}))
		from, _, params := open(t, src)
		to, _, _ := open(t, same)
		require.Len(t, to.Tensors, len(from.Tensors))
		for _, p := range params {
			a, err := from.Tensor(models.MLXName(p))
			require.NoError(t, err)
			b, err := to.Tensor(models.MLXName(p))
			require.NoError(t, err)
			require.Equal(t, a.Mem, b.Mem, p.Name)
		}
		for _, next := range []string{"m.gguf", "folder", "mlx"} {
			o := Options{Layout: LayoutOf(next), Type: graph.F32}
			if next == "mlx" {
				o.Layout = MLX
			}
			path := filepath.Join(out, next)
			err := Model(context.Background(), path, same, o)
			if name == "qwen3_moe" && next == "m.gguf" {
				require.ErrorContains(t, err, "mlp_only_layers is [0], and llama.cpp takes none for qwen3_moe whatever the file says")
				continue
			} else if name == "deepseek_v3" && next == "folder" {
				require.ErrorContains(t, err, "keys and values of latents have a matrix each, model.layers.0.self_attn.embed_q.weight, and folders of Hugging Face one for both")
				continue
			}
			require.NoError(t, err)
			got := numbers(t, path)
			require.Len(t, got, len(want))
			for p, x := range want {
				require.True(t, next == "m.gguf" && name == "mixtral" || array.Equal(x, got[p]), "%s: %s", path, p) // whose rows of heads are others
			}
			require.Equal(t, tokens, greedy(t, path), path)
		}
		again := filepath.Join(out, "again")
		require.NoError(t, Model(context.Background(), again, filepath.Join(out, "mlx"), Options{Layout: MLX, Affine: nn.Affine{Bits: 8, GroupSize: 32}}))
		require.Len(t, greedy(t, again), 24)
	}
}

// 8-bit floats with scales stay as they are in folders of Hugging Face, and become numbers elsewhere: bf16, or what is asked for.
func TestScaled(t *testing.T) {
	src := compressed(t, "deepseek_v3_fp8")
	want, tokens := numbers(t, src), greedy(t, src)
	for next, o := range map[string]Options{
		"same":     {Layout: Safetensors},
		"m.gguf":   {Layout: GGUF},
		"f32.gguf": {Layout: GGUF, Type: graph.F32},
		"f32":      {Layout: Safetensors, Type: graph.F32},
		"mlx":      {Layout: MLX},
	} {
		path := filepath.Join(t.TempDir(), next)
		require.NoError(t, Model(context.Background(), path, src, o))
		c, _, _ := open(t, path)
		eight := 0
		for _, x := range c.Tensors {
			if x.Type.DType.IsF8() {
				eight++
			}
		}
		require.Equal(t, next == "same", eight > 0, next)
		_, says := c.Config.Value("quantization_config")
		require.Equal(t, eight > 0, says, next)
		got := numbers(t, path)
		for p, x := range want {
			most := 0.0
			if next == "m.gguf" || next == "mlx" {
				most = 0.01
			}
			off, _ := array.MaxDiff(x, got[p])
			require.LessOrEqual(t, off, most, "%s: %s", next, p)
		}
		if next != "m.gguf" && next != "mlx" {
			require.Equal(t, tokens, greedy(t, path), next)
		}
	}
}

// compressed returns a DeepSeek of testdata with queries of a latent, without which llama.cpp opens only the published sizes.
func compressed(t *testing.T, name string) string {
	t.Helper()
	src := configured(t, name, map[string]any{"q_lora_rank": 7})
	c, err := checkpoint.Open(src)
	require.NoError(t, err)
	var all []tensor.Source
	for _, x := range c.Tensors {
		a, err := x.Array()
		require.NoError(t, err)
		layer, query := strings.CutSuffix(x.Name, "q_proj.weight")
		if !query {
			if !strings.HasSuffix(x.Name, "q_proj.weight_scale_inv") {
				all = append(all, tensor.Of(x.Name, a.Clone()))
			}
			continue
		}
		for name, shape := range map[string][]int{"q_a_proj": {7, x.Type.Shape[1]}, "q_a_layernorm": {7}, "q_b_proj": {x.Type.Shape[0], 7}} {
			a := array.New(graph.T(graph.F32, shape...))
			for i := range array.Data[float32](a) {
				array.Data[float32](a)[i] = float32(i%5) * 0.25
			}
			all = append(all, tensor.Of(layer+name+".weight", a))
		}
	}
	require.NoError(t, c.Close())
	require.NoError(t, safetensors.Write(filepath.Join(src, safetensors.FileName), nil, all))
	return src
}
