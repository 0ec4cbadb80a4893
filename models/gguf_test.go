package models

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/gguf"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
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
	architecture string
	keys         map[string]any                               // of the architecture, behind a dot
	change       func(name string, a array.Array) array.Array // nil changes nothing
	extra        map[string]array.Array                       // tensors
}

func ggufs() map[string]asGGUF {
	type m = map[string]any
	return map[string]asGGUF{
		"mixtral": {"llama", m{"head_count": 4, "head_count_kv": 2, "feed_forward_length": 24, "expert_count": 6, "expert_used_count": 2, "rms": 1e-5, "vocab_size": 40, "rope.dimension_count": 4}, neighbours, nil},
		"olmoe":   {"olmoe", m{"head_count": 4, "clamp_kqv": 0.4, "feed_forward_length": 16, "expert_count": 8, "expert_used_count": 3, "rms": 1e-5}, nil, nil},
		"llama": {"llama", m{"head_count": 4, "head_count_kv": 2, "key_length": 6, "value_length": 6, "feed_forward_length": 20, "rms": 1e-6}, neighbours,
			map[string]array.Array{"rope_freqs.weight": llama3Factors()}},
		"qwen3": {"qwen3", m{"head_count": 4, "head_count_kv": 2, "key_length": 8, "feed_forward_length": 24, "rms": 1e-6}, nil, nil},
		"qwen2_moe": {"qwen2moe", m{"head_count": 4, "head_count_kv": 2, "feed_forward_length": 20, "expert_count": 6, "expert_used_count": 3, "expert_feed_forward_length": 16,
			"expert_shared_feed_forward_length": 12, "rms": 1e-6}, nil, nil},
	}
}

// neighbours has rotary pairs of queries and keys be neighbours, as GGUF files of Llama have them.
func neighbours(name string, a array.Array) array.Array {
	if !strings.Contains(name, ".attn_q.") && !strings.Contains(name, ".attn_k.") {
		return a
	}
	heads := 4
	if strings.Contains(name, ".attn_k.") {
		heads = 2
	}
	out, x := a.Clone(), array.Data[float32](a)
	width, columns := a.Type.Shape[0]/heads, len(x)/a.Type.Shape[0]
	for h := range heads {
		for i := range width {
			from := h*width + i/2 + i%2*width/2
			copy(array.Data[float32](out)[(h*width+i)*columns:][:columns], x[from*columns:][:columns])
		}
	}
	return out
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
func writeGGUF(t *testing.T, name string, g asGGUF) string {
	t.Helper()
	c, m, _ := openTest(t, name)
	var ts []tensor.Source
	for _, p := range paramsOf(t, c, m) {
		w, err := Find(c, p)
		require.NoError(t, err)
		a, err := w.Array()
		require.NoError(t, err)
		require.NotEmpty(t, p.GGUF, p.Name)
		if g.change != nil {
			a = g.change(p.GGUF, a)
		}
		for a.Type.Shape[0] == 1 {
			a = a.Reshape(a.Type.Shape[1:]...) // as the package gguf writes it
		}
		ts = append(ts, tensor.Of(p.GGUF, a))
	}
	for name, a := range g.extra {
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
		case slices.Contains([]string{"head_count", "head_count_kv", "key_length", "value_length", "clamp_kqv", "sliding_window"}, k):
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
	for name, g := range ggufs() {
		want := expectedOf(t, name)
		c, err := checkpoint.Open(writeGGUF(t, name, g))
		require.NoError(t, err)
		defer c.Close()
		m, err := Open(c)
		require.NoError(t, err, name)
		require.Equal(t, strings.TrimSuffix(name, "_tied"), m.Family)
		isNear(t, name, m.Vocab, logitsOf(t, c, m, "", want.Tokens), want)
	}
}
