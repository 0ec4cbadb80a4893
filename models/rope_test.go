package models

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// Every setting of scaled positions is followed, in the member that transformers 5 writes and in the older one.
func TestRoPESettings(t *testing.T) {
	yarn := nn.YaRN{Factor: 40, Original: 4096, Fast: 16, Slow: 2, Fractions: true, MScale: 1, MScaleAllDim: 0.7}
	fixed := nn.YaRN{Factor: 40, Original: 4096, Magnitude: 1.5}
	for config, want := range map[string]primitives.RoPEOp{
		`{"rope_theta": 5000}`: {Base: 5000},
		`{"model_type": "glm4_moe", "rope_theta": 1, "rope_parameters": {"rope_theta": 5000, "rope_type": "default", "partial_rotary_factor": 0.5}}`: {Base: 5000, Width: 32},
		`{"rope_scaling": {"type": "linear", "factor": 4}}`: nn.LinearRoPE{Factor: 4}.RoPE(10000, 64),
		`{"rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 16, "beta_slow": 2, "truncate": false, "mscale": 1, "mscale_all_dim": 0.7}}`: yarn.RoPE(10000, 64),
		`{"rope_parameters": {"rope_type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "attention_factor": 1.5}}`:                                                        fixed.RoPE(10000, 64),
		`{"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192}}`: nn.Llama3RoPE{Factor: 8, Low: 1, High: 4,
			Original: 8192}.RoPE(10000, 64),
		// transformers 4.43 to 4.57 write the type under both names, and transformers 5 reads either object next to the other.
		`{"rope_scaling": {"type": "linear", "rope_type": "linear", "factor": 4}}`:                                                                                                nn.LinearRoPE{Factor: 4}.RoPE(10000, 64),
		`{"rope_theta": 5000, "rope_parameters": {"rope_theta": 5000, "rope_type": "linear", "factor": 4}, "rope_scaling": {"type": "linear", "factor": 4}}`:                      nn.LinearRoPE{Factor: 4}.RoPE(5000, 64),
		`{"rope_theta": 5000, "rope_parameters": {"rope_theta": 5000, "rope_type": "default"}, "rope_scaling": {}}`:                                                               {Base: 5000},
		`{"model_type": "qwen3", "rope_parameters": {"full_attention": {"rope_theta": 5000, "rope_type": "linear", "factor": 4}, "sliding_attention": {"rope_type": "default"}}}`: nn.LinearRoPE{Factor: 4}.RoPE(5000, 64),
		// A length that is not there is the context's; one next to the object counts, too.
		`{"max_position_embeddings": 512, "rope_scaling": {"rope_type": "yarn", "factor": 4}}`: nn.YaRN{Factor: 4, Original: 512}.RoPE(10000, 64),
		`{"max_position_embeddings": 512, "original_max_position_embeddings": 128, "rope_scaling": {"rope_type": "yarn", "factor": 4}}`: nn.YaRN{Factor: 4,
			Original: 128}.RoPE(10000, 64),
		`{"max_position_embeddings": 512, "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}}`: nn.Llama3RoPE{Factor: 8, Low: 1, High: 4,
			Original: 512}.RoPE(10000, 64),
		// Members that transformers does not read change nothing.
		`{"rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 128, "attn_factor": 0.8, "finetuned": true}}`: nn.YaRN{Factor: 4, Original: 128}.RoPE(10000, 64),
		`{"rope_scaling": {"type": "linear", "factor": 4, "original_max_position_embeddings": 128, "beta_fast": 7}}`:                           nn.LinearRoPE{Factor: 4}.RoPE(10000, 64),
		`{"rope_scaling": {"rope_type": "default", "factor": 4}}`:                                                                              {Base: 10000},
	} {
		path := filepath.Join(t.TempDir(), checkpoint.ConfigName)
		require.NoError(t, os.WriteFile(path, []byte(config), 0o666))
		c, err := checkpoint.ReadConfig(path)
		require.NoError(t, err)
		family, _, _ := familyOf(c, nil)
		r := newReader(&checkpoint.Checkpoint{Config: c}, family)
		r.read["max_position_embeddings"] = true
		got := r.RoPE(64)
		if err := r.done(); err != nil || !reflect.DeepEqual(got.RoPEOp, want) {
			t.Errorf("%s: error %v, and %+v\nwant %+v", config, err, got, want)
		}
	}
}

// The settings of Llama 3's positions are found in the factors that they make, as llama.cpp's converter rounds them, and other factors are
// of no such settings.
func TestLlama3Of(t *testing.T) {
	for _, x := range []struct {
		base  float64
		width int
		want  nn.Llama3RoPE
	}{
		{500000, 128, nn.Llama3RoPE{Factor: 8, Low: 1, High: 4, Original: 8192}},  // Llama 3.1
		{500000, 64, nn.Llama3RoPE{Factor: 32, Low: 1, High: 4, Original: 8192}},  // Llama 3.2, 1B
		{500000, 128, nn.Llama3RoPE{Factor: 32, Low: 1, High: 4, Original: 8192}}, // 3B
		{1000, 32, nn.Llama3RoPE{Factor: 4, Low: 1, High: 4, Original: 32}},
	} {
		plain := nn.LinearRoPE{Factor: 1}.RoPE(x.base, x.width)
		factors := factorsOf(x.want.RoPE(x.base, x.width), plain)
		if got, ok := llama3Of(factors, x.base); !ok || got != x.want {
			t.Errorf("%+v, %v, want %+v", got, ok, x.want)
		}
		factors[0] = 1.1
		if got, ok := llama3Of(factors, x.base); ok {
			t.Errorf("other factors are %+v", got)
		}
		other := x.want
		other.High = 3
		if got, ok := llama3Of(factorsOf(other.RoPE(x.base, x.width), plain), x.base); ok {
			t.Errorf("factors with another limit of turns are %+v", got)
		}
	}
}

// Each kind of attention may have positions of its own, where a family has several kinds.
func TestPositionsOfKinds(t *testing.T) {
	flat := func(theta float64) map[string]any { return map[string]any{"rope_type": "default", "rope_theta": theta} }
	with := func(family string, rope any) string {
		config := configOf(t, family)
		delete(config, "rope_theta")
		config["rope_parameters"] = rope
		return described(config)
	}
	for _, family := range []string{"gpt_oss", "qwen3"} {
		same := with(family, map[string]any{"full_attention": flat(5000), "sliding_attention": flat(5000)})
		if want := with(family, flat(5000)); same != want {
			t.Errorf("%s: %s\nwant %s", family, apart(same, want), apart(want, same))
		}
	}
	got := with("gpt_oss", map[string]any{"full_attention": flat(5000), "sliding_attention": flat(700)}) // layer 0 slides
	first, second := strings.Index(got, "base=700"), strings.Index(got, "base=5000")
	if first < 0 || second < first || strings.Count(got, "base=700") != 2 || strings.Count(got, "base=5000") != 2 {
		t.Errorf("layer 0 is to have base 700 and layer 1 base 5000:\n%s", got)
	}
	for _, x := range []struct {
		family string
		rope   map[string]any
		want   string
	}{
		{"qwen3", map[string]any{"full_attention": flat(5000), "chunked_attention": flat(700)}, "setting rope_parameters.chunked_attention is not known"},
		{"qwen3", map[string]any{"full_attention": flat(5000), "rope_theta": 5000}, "setting rope_parameters.rope_theta is not known"},
		{"gpt_oss", map[string]any{"full_attention": flat(5000)}, "rope_parameters has full_attention without sliding_attention, want both"},
		{"qwen3", map[string]any{"sliding_attention": flat(5000)}, "rope_parameters has sliding_attention without full_attention, want both"},
	} {
		if got := with(x.family, x.rope); !strings.Contains(got, x.want) {
			t.Errorf("%s: %s\nwant %s", x.family, got, x.want)
		}
	}
	for _, family := range names() { // transformers ignores the objects in families whose classes have no layer_types
		if family == "gpt_oss" || family == "qwen2_moe" || family == "qwen3" {
			continue
		}
		for _, kind := range []string{"full_attention", "sliding_attention"} {
			want := "transformers does not read rope_parameters." + kind + " for architecture \"" + family
			if got := with(family, map[string]any{kind: flat(5000)}); !strings.Contains(got, want) {
				t.Errorf("%s: %s\nwant %s", family, got, want)
			}
		}
		config := configOf(t, family)
		delete(config, "rope_parameters")
		config["rope_scaling"] = map[string]any{"full_attention": flat(5000)}
		require.Contains(t, described(config), "transformers does not read rope_scaling.full_attention")
	}
}

// An empty object about positions is that of plain positions, and null or an empty rope_scaling are the family's own.
// transformers computes so for all families: its GptOssConfig sets YaRN only if rope_parameters is null.
func TestEmptyPositions(t *testing.T) {
	for _, f := range Families() {
		family := f.Name
		with := func(change map[string]any) string {
			config := configOf(t, family)
			delete(config, "rope_parameters")
			delete(config, "rope_theta")
			maps.Copy(config, change)
			return described(config)
		}
		none := with(nil)
		theta := f.Defaults["rope_theta"]
		if theta == nil {
			theta = 10000.0
		}
		plain := with(map[string]any{"rope_parameters": map[string]any{"rope_type": "default", "rope_theta": theta}})
		require.Equal(t, family == "gpt_oss", none != plain)
		empty := map[string]any{}
		require.Equal(t, plain, with(map[string]any{"rope_parameters": empty}), family)
		require.Equal(t, plain, with(map[string]any{"rope_parameters": empty, "rope_scaling": empty}), family)
		require.Equal(t, plain, with(map[string]any{"rope_parameters": empty, "rope_scaling": nil}), family)
		require.Equal(t, none, with(map[string]any{"rope_parameters": nil}), family)
		require.Equal(t, none, with(map[string]any{"rope_scaling": nil}), family)
		require.Equal(t, none, with(map[string]any{"rope_scaling": empty}), family)
		linear := map[string]any{"rope_type": "linear", "factor": 2.0}
		require.Equal(t, with(map[string]any{"rope_scaling": linear}), with(map[string]any{"rope_parameters": empty, "rope_scaling": linear}), family)
	}
}

// With dynamic positions a text may be longer than the training texts by their factor.
func TestContext(t *testing.T) {
	for _, x := range []struct {
		rope map[string]any
		want int
	}{
		{map[string]any{"rope_type": "default"}, 96},
		{map[string]any{"rope_type": "linear", "factor": 4.0}, 96},
		{map[string]any{"rope_type": "dynamic", "factor": 4.0}, 384},
		{map[string]any{"rope_type": "dynamic", "factor": 0.5}, 96},
		{map[string]any{"rope_type": "dynamic", "factor": 1e300}, math.MaxInt32},
	} {
		config := configOf(t, "llama")
		config["max_position_embeddings"], config["rope_parameters"] = 96.0, x.rope
		c := &checkpoint.Checkpoint{Path: "m", Format: checkpoint.Safetensors, Config: checkpoint.NewConfig("m/config.json", config)}
		m, err := Open(c)
		require.NoError(t, err)
		require.Equal(t, x.want, m.Context, x.rope)
	}
}

// Notes of the programs that wrote a file, and names of further limits, change nothing.
func TestHarmless(t *testing.T) {
	config := configOf(t, "llama")
	plain := described(config)
	for _, name := range []string{"model_name", "license", "flash_attn", "n_ctx", "n_positions", "unsloth_version"} {
		config[name] = "x"
	}
	require.Equal(t, plain, described(config))
	config["n_heads"] = 7
	require.Contains(t, described(config), "setting n_heads is not known")
}
