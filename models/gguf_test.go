package models

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/gguf"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// Parameters have the names in GGUF files that the package gguf gives them. It knows none where llama.cpp lacks a part.
func TestGGUFNames(t *testing.T) {
	for name := range tests() {
		c, m, _ := openTest(t, name)
		text, err := os.ReadFile(filepath.Join("testdata", name, "gguf.json"))
		require.NoError(t, err)
		var want map[string]*string
		require.NoError(t, json.Unmarshal(text, &want))
		for _, p := range paramsOf(t, c, m) {
			name, ok := want[p.Name]
			if !ok {
				t.Errorf("%s: there is no %s", c.Path, p.Name)
			} else if name != nil && *name != p.GGUF {
				t.Errorf("%s: %s is %q in GGUF files, want %q", c.Path, p.Name, p.GGUF, *name)
			}
		}
	}
}

// asGGUF is how a model of testdata is written to a GGUF file.
type asGGUF struct {
	model, architecture string
	keys                map[string]any               // of the architecture, behind a dot
	change              func(map[string]array.Array) // changes the tensors; nil changes nothing
}

func ggufs() []asGGUF {
	type m = map[string]any
	latent := m{"head_count": 4, "rope.dimension_count": 4, "kv_lora_rank": 10, "leading_dense_block_count": 1, "feed_forward_length": 20, "expert_feed_forward_length": 8, "expert_used_count": 3,
		"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 24, "rope.scaling.yarn_beta_fast": 4.0, "rope.scaling.yarn_beta_slow": 1.0}
	with := func(a, b m) m {
		out := maps.Clone(a)
		maps.Copy(out, b)
		return out
	}
	v2 := with(latent, m{"expert_count": 6, "expert_shared_count": 2, "rms": 1e-6, "rope.scaling.yarn_log_multiplier": 0.07, "expert_weights_scale": 1.0})
	return []asGGUF{
		{"gpt_oss", "gpt-oss", m{"head_count": 4, "head_count_kv": 2, "key_length": 8, "value_length": 8, "sliding_window": 5, "feed_forward_length": 16, "expert_feed_forward_length": 16, "expert_count": 3, "expert_used_count": 2,
			"swiglu_clamp_exp": 2.0, "rms": 1e-5, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 32, "rope.scaling.yarn_beta_fast": 4.0, "rope.scaling.yarn_beta_slow": 1.0}, nil},
		{"mixtral", "llama", m{"head_count": 4, "head_count_kv": 2, "feed_forward_length": 24, "expert_count": 6, "expert_used_count": 2, "rms": 1e-5, "vocab_size": 40, "rope.dimension_count": 4}, neighbours},
		{"olmoe", "olmoe", m{"head_count": 4, "clamp_kqv": 0.4, "feed_forward_length": 16, "expert_count": 8, "expert_used_count": 3, "rms": 1e-5}, nil},
		{"llama", "llama", m{"head_count": 4, "head_count_kv": 2, "key_length": 6, "value_length": 6, "feed_forward_length": 20, "rms": 1e-6}, func(ts map[string]array.Array) {
			neighbours(ts)
			ts["rope_freqs.weight"] = llama3Factors()
		}},
		{"qwen3", "qwen3", m{"head_count": 4, "head_count_kv": 2, "key_length": 8, "feed_forward_length": 24, "rms": 1e-6}, nil},
		{"qwen2_moe", "qwen2moe", m{"head_count": 4, "head_count_kv": 2, "feed_forward_length": 20, "expert_count": 6, "expert_used_count": 3, "expert_feed_forward_length": 16,
			"expert_shared_feed_forward_length": 12, "rms": 1e-6}, nil},
		{"deepseek_v2", "deepseek2", with(v2, m{"head_count_kv": 4, "key_length": 10, "value_length": 8}), nil},
		{"deepseek_v2", "deepseek2", with(v2, m{"head_count_kv": 1, "key_length": 14, "value_length": 10, "key_length_mla": 10, "value_length_mla": 8, "expert_gating_func": 1}), split},
		{"deepseek_v3", "deepseek2", with(latent, m{"q_lora_rank": 7, "head_count_kv": 1, "key_length": 14, "value_length": 10, "key_length_mla": 10, "value_length_mla": 8, "expert_count": 8, "expert_shared_count": 1, "rms": 1e-5,
			"rope.scaling.yarn_log_multiplier": 0.1, "expert_group_count": 4, "expert_group_used_count": 2, "expert_gating_func": 2, "expert_weights_norm": true, "expert_weights_scale": 2.5}), split},
		{"glm4_moe", "glm4moe", m{"block_count": 3, "nextn_predict_layers": 1, "head_count": 4, "head_count_kv": 2, "key_length": 8, "rope.dimension_count": 4, "leading_dense_block_count": 1, "feed_forward_length": 20,
			"expert_feed_forward_length": 8, "expert_used_count": 3, "expert_count": 4, "expert_shared_count": 2, "expert_gating_func": 2, "expert_weights_norm": true, "expert_weights_scale": 1.5, "rms": 1e-5}, func(ts map[string]array.Array) {
			ts["blk.2.nextn.eh_proj.weight"] = array.New(graph.T(graph.F32, 16, 32))
		}},
	}
}

// neighbours has rotary pairs of queries and keys be neighbours, as GGUF files of Llama have them.
func neighbours(ts map[string]array.Array) {
	for name, a := range ts {
		heads := 4
		switch {
		case strings.Contains(name, ".attn_k."):
			heads = 2
		case !strings.Contains(name, ".attn_q."):
			continue
		}
		out, x := a.Clone(), array.Data[float32](a)
		width, columns := a.Type.Shape[0]/heads, len(x)/a.Type.Shape[0]
		for h := range heads {
			for i := range width {
				from := h*width + i/2 + i%2*width/2
				copy(array.Data[float32](out)[(h*width+i)*columns:][:columns], x[from*columns:][:columns])
			}
		}
		ts[name] = out
	}
}

// split makes two tensors of what DeepSeek's keys and values are made by, 6 and 8 rows of each of 4 heads.
func split(ts map[string]array.Array) {
	for name, a := range maps.Clone(ts) {
		before, ok := strings.CutSuffix(name, "attn_kv_b.weight")
		if !ok {
			continue
		}
		k, v := array.New(graph.T(graph.F32, 4, 10, 6)), array.New(graph.T(graph.F32, 4, 8, 10))
		for i, x := range array.Data[float32](a) {
			h, row, column := i/140, i/10%14, i%10
			if row < 6 {
				array.Data[float32](k)[(h*10+column)*6+row] = x
			} else {
				array.Data[float32](v)[(h*8+row-6)*10+column] = x
			}
		}
		delete(ts, name)
		ts[before+"attn_k_b.weight"], ts[before+"attn_v_b.weight"] = k, v
	}
}

// llama3Factors returns what divides the frequencies of the model llama in testdata.
func llama3Factors() array.Array {
	a := array.New(graph.T(graph.F32, 3))
	for i := range 3 {
		turns, factor := 32*math.Pow(1000, -float64(i)/3)/(2*math.Pi), 1.0
		switch kept := (turns - 1) / (4 - 1); {
		case turns < 1:
			factor = 4
		case turns <= 4:
			factor = 1 / ((1-kept)/4 + kept)
		}
		array.Data[float32](a)[i] = float32(factor)
	}
	return a
}

// writeGGUF writes a model of testdata to a GGUF file, and returns its path.
func writeGGUF(t *testing.T, g asGGUF) string {
	t.Helper()
	c, m, _ := openTest(t, g.model)
	tensors := map[string]array.Array{}
	for _, p := range paramsOf(t, c, m) {
		w, err := Find(c, p)
		require.NoError(t, err)
		require.NotEmpty(t, p.GGUF, p.Name)
		tensors[p.GGUF], err = w.Array()
		require.NoError(t, err)
	}
	if g.change != nil {
		g.change(tensors)
	}
	var ts []tensor.Source
	for name, a := range tensors {
		for a.Type.Shape[0] == 1 {
			a = a.Reshape(a.Type.Shape[1:]...) // as the package gguf writes it
		}
		ts = append(ts, tensor.Of(name, a))
	}
	hidden, _, err := c.Config.Int("hidden_size")
	require.NoError(t, err)
	meta := []gguf.Meta{{Key: "general.architecture", Value: g.architecture}}
	keys := map[string]any{"context_length": 96, "embedding_length": hidden, "block_count": m.Layers, "rope.freq_base": 1000.0}
	for k, v := range g.keys {
		switch {
		case k == "rms":
			k = "attention.layer_norm_rms_epsilon"
		case slices.Contains([]string{"head_count", "head_count_kv", "key_length", "value_length", "key_length_mla", "value_length_mla", "q_lora_rank", "kv_lora_rank", "clamp_kqv", "sliding_window"}, k):
			k = "attention." + k
		}
		keys[k] = v
	}
	for k, v := range keys {
		switch x := v.(type) {
		case int:
			v = uint32(x)
		case float64:
			v = float32(x)
		}
		meta = append(meta, gguf.Meta{Key: g.architecture + "." + k, Value: v})
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, gguf.Write(path, meta, ts))
	return path
}

// A GGUF file has the logits of the folder that it was made of, up to roundings of numbers that GGUF files have in f32.
func TestGGUFLogits(t *testing.T) {
	for _, g := range ggufs() {
		want := expectedOf(t, g.model)
		c, err := checkpoint.Open(writeGGUF(t, g))
		require.NoError(t, err)
		defer c.Close()
		m, err := Open(c)
		require.NoError(t, err, g.model)
		require.Equal(t, g.model, m.Family.Name)
		isNear(t, g.model, m.Vocab, logitsOf(t, c, m, "", want.Tokens), want)
	}
}

// Keys that older converters write, and keys that say what is done anyway, change no logits.
func TestGGUFKeysOfOlderConverters(t *testing.T) {
	type m = map[string]any
	find := func(model string) asGGUF {
		for _, g := range ggufs() {
			if g.model == model {
				g.keys = maps.Clone(g.keys)
				return g
			}
		}
		panic(model)
	}
	for _, x := range []struct {
		model string
		keys  m
	}{
		{"llama", m{"tensor_data_layout": "Meta AI original pth", "expert_count": 0, "expert_used_count": 0, "attention.causal": true, "rope.scaling.finetuned": false}},
		{"llama", m{"vocab_size": uint64(40), "block_count": uint64(2), "context_length": int32(96), "rope.scaling.type": "none"}},
		{"qwen3", m{"expert_count": 0, "attention.value_length": 8, "rope.scaling.factor": 0.0}},
		{"mixtral", m{"expert_weights_norm": true, "expert_gating_func": 1, "attention.causal": true, "expert_group_count": 0}},
		{"deepseek_v3", m{"rope.scaling.yarn_attn_factor": 1.0, "rope.scaling.yarn_ext_factor": 1.0}},
	} {
		g := find(x.model)
		maps.Copy(g.keys, x.keys)
		want := expectedOf(t, g.model)
		c, err := checkpoint.Open(writeGGUF(t, g))
		require.NoError(t, err)
		defer c.Close()
		m, err := Open(c)
		require.NoError(t, err, "%s with %v", x.model, x.keys)
		isNear(t, fmt.Sprintf("%s with %v", x.model, x.keys), m.Vocab, logitsOf(t, c, m, "", want.Tokens), want)
	}
	for key, want := range map[string]string{
		"attention.causal": `qwen3.attention.causal is "false", want true`,
		"logit_scale":      `setting qwen3.logit_scale is not known for architecture "qwen3" and may change results`,
		"block_count":      `qwen3.block_count is 0, want at least 1`,
		"context_length":   `qwen3.context_length is "-1", want an integer from 0 to 2147483647`,
	} {
		g := find("qwen3")
		g.keys[key] = m{"attention.causal": false, "logit_scale": 0.5, "block_count": 0, "context_length": int32(-1)}[key]
		c, err := checkpoint.Open(writeGGUF(t, g))
		require.NoError(t, err)
		defer c.Close()
		_, err = Open(c)
		require.ErrorContains(t, err, want)
	}
}

// A key that a GGUF file lacks means what llama.cpp takes without it (src/llama-model.cpp and src/models), or is an error where llama.cpp
// has none, too.
func TestGGUFWithoutKeys(t *testing.T) {
	for _, g := range ggufs() {
		opened := func(change map[string]any) string {
			g := g
			g.keys = maps.Clone(g.keys)
			for k, v := range change {
				if g.keys[k] = v; v == nil {
					delete(g.keys, k)
				}
			}
			c, err := checkpoint.Open(writeGGUF(t, g))
			require.NoError(t, err)
			defer c.Close()
			m, err := Open(c)
			if err != nil {
				return err.Error()
			}
			p, err := graph.Trace("logits", func(t *graph.Tracer) []*graph.Value {
				return []*graph.Value{m.Forward(nn.New(t, nn.Options{}), t.Input("tokens", graph.I32, 1, 3), &nn.Step{})}
			})
			require.NoError(t, err)
			return p.String()
		}
		usual := opened(nil)
		require.Contains(t, opened(map[string]any{"rms": nil}), g.architecture+".attention.layer_norm_rms_epsilon is 0 or missing, want a number above 0")
		for key, value := range map[string]any{"expert_gating_func": map[string]any{"deepseek_v2": 1, "glm4_moe": 2, "gpt_oss": 3}[g.model], "expert_weights_scale": 1.0,
			"expert_weights_norm": map[string]any{"deepseek_v3": false, "glm4_moe": false, "mixtral": true, "qwen3_moe": true}[g.model]} {
			if value != nil && g.keys["expert_count"] != nil && (key != "expert_weights_scale" || strings.HasPrefix(g.model, "deepseek") || g.model == "glm4_moe") {
				require.Equal(t, opened(map[string]any{key: value}), opened(map[string]any{key: nil}), "%s without %s", g.model, key)
			}
		}
		switch g.model {
		case "deepseek_v3":
			require.Contains(t, opened(map[string]any{"expert_gating_func": nil}), "deepseek2.expert_gating_func is 1, which llama.cpp takes without the key, too, and the experts have biases; want 2")
			require.NotEqual(t, usual, opened(map[string]any{"expert_weights_norm": nil}))
		case "gpt_oss": // without the type positions are scaled linearly
			require.Equal(t, opened(map[string]any{"rope.scaling.type": "linear"}), opened(map[string]any{"rope.scaling.type": nil}))
			require.Equal(t, opened(map[string]any{"rope.scaling.factor": 1.0}), opened(map[string]any{"rope.scaling.factor": nil}))
		case "deepseek_v2":
			if g.keys["key_length_mla"] == nil { // the heads are 16/4 columns wide
				require.Contains(t, opened(map[string]any{"key_length": nil}), "heads of 4 columns, of which 4 are rotated, want fewer")
				require.Equal(t, opened(map[string]any{"value_length": 4}), opened(map[string]any{"value_length": nil}))
			}
			// Scores are multiplied by (0.1·ln(4) + 1)² once more without the key, or with linear scaling.
			for key, m := range map[string]float64{"rope.scaling.yarn_log_multiplier": 0, "rope.scaling.type": float64(float32(0.07))} {
				x := (0.1*math.Log(4) + 1) * (m*math.Log(4) + 1)
				require.Contains(t, opened(map[string]any{key: nil}), fmt.Sprintf("scale=%.6g", x*x/math.Sqrt(10))[:11], key)
			}
		}
	}
}

// The positions of a GGUF file are scaled as llama.cpp scales them: attn_factor multiplies what YaRN multiplies rotated heads by, and a factor
// without a type is linear.
func TestGGUFPositions(t *testing.T) {
	for _, x := range []struct {
		keys map[string]any
		want primitives.RoPEOp
	}{
		{map[string]any{"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 24, "rope.scaling.yarn_attn_factor": 0.5},
			nn.YaRN{Factor: 4, Original: 24, Magnitude: 0.5 * (1 + 0.1*math.Log(4))}.RoPE(1000, 8)},
		{map[string]any{"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}, nn.YaRN{Factor: 4, Original: 96}.RoPE(1000, 8)},
		{map[string]any{"rope.scaling.factor": 4.0}, nn.LinearRoPE{Factor: 4}.RoPE(1000, 8)},
		{map[string]any{"rope.scale_linear": 4.0}, nn.LinearRoPE{Factor: 4}.RoPE(1000, 8)},
	} {
		keys := map[string]any{"head_count": 4, "head_count_kv": 2, "key_length": 8, "feed_forward_length": 24, "rms": 1e-6}
		maps.Copy(keys, x.keys)
		c, err := checkpoint.Open(writeGGUF(t, asGGUF{"qwen3", "qwen3", keys, nil}))
		require.NoError(t, err)
		defer c.Close()
		family, _, _ := familyOf(c.Config, nil)
		r := newReader(c, family)
		got := r.RoPE(8)
		require.NoError(t, r.err)
		if !reflect.DeepEqual(got.RoPEOp, x.want) {
			t.Errorf("%v: %+v\nwant %+v", x.keys, got.RoPEOp, x.want)
		}
	}
}

// A GGUF file of a model without dense layers need not say so, nor how wide they would be.
func TestGGUFWithoutDenseLayers(t *testing.T) {
	for _, g := range ggufs() {
		if g.model != "deepseek_v3" && g.model != "glm4_moe" {
			continue
		}
		g.keys = maps.Clone(g.keys)
		delete(g.keys, "leading_dense_block_count")
		delete(g.keys, "feed_forward_length")
		c, err := checkpoint.Open(writeGGUF(t, g))
		require.NoError(t, err)
		defer c.Close()
		m, err := Open(c)
		require.NoError(t, err)
		_, err = Params(m, c) // the file has a dense layer
		require.ErrorContains(t, err, "blk.0.ffn_gate_inp.weight")
	}
}
