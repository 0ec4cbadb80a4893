package models

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
)

func names() (list []string) {
	for _, f := range Families() {
		list = append(list, f.Name)
	}
	return list
}

// described returns what Open makes of a config.json: the settings, the program, and whether layer 2 predicts further tokens; or the error.
func described(config map[string]any) string {
	text, err := json.Marshal(config) // and so numbers are float64
	if err != nil {
		return err.Error()
	}
	var members map[string]any
	if err := json.Unmarshal(text, &members); err != nil {
		return err.Error()
	}
	c := &checkpoint.Checkpoint{Path: "m", Format: checkpoint.Safetensors, Config: checkpoint.NewConfig("m/config.json", members)}
	m, err := Open(c)
	if err != nil {
		return err.Error()
	}
	p, err := graph.Trace("logits", func(t *graph.Tracer) []*graph.Value {
		return []*graph.Value{m.Forward(nn.New(t, nn.Options{}), t.Input("tokens", graph.I32, 1, 3), &nn.Step{})}
	})
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, s := range m.Settings {
		if s.Value != nil && !strings.HasPrefix(s.Name, "rope_") { // which the program has, and which have two spellings
			if s.GGUF != "" {
				s.Name = "" // a setting may have several
			}
			fmt.Fprintln(&b, s.Name, s.GGUF, s.Value)
		}
	}
	fmt.Fprintln(&b, m.Family.Name, m.Vocab, m.Context, m.Layers, m.Experts, m.TopK, furtherLayers(c)("model.layers.2.x"))
	return b.String() + p.String()
}

// apart returns the first line of a text that differs from another's.
func apart(text, other string) string {
	lines := strings.Split(other, "\n")
	for i, line := range strings.Split(text, "\n") {
		if i == len(lines) || line != lines[i] {
			return line
		}
	}
	return ""
}

// A setting that config.json leaves out has the value that transformers' class has, which testdata/defaults.py has read, or is required.
func TestDefaults(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "defaults.json"))
	require.NoError(t, err)
	var families map[string]map[string]any
	require.NoError(t, json.Unmarshal(text, &families))
	require.ElementsMatch(t, names(), slices.Collect(maps.Keys(families)))
	sizes := []string{
		"hidden_size", "intermediate_size", "kv_lora_rank", "max_position_embeddings", "moe_intermediate_size", "n_routed_experts", "num_attention_heads",
		"num_experts", "num_experts_per_tok", "num_hidden_layers", "num_local_experts", "qk_nope_head_dim", "qk_rope_head_dim",
		"shared_expert_intermediate_size", "v_head_dim", "vocab_size",
	}
	for family, values := range families {
		base := configOf(t, family)
		delete(base, "rope_parameters")
		if n, ok := base["num_local_experts"]; ok && family == "qwen3_moe" { // transformers' other name of it
			base["num_experts"] = n
			delete(base, "num_local_experts")
		}
		if _, ok := base["use_sliding_window"]; ok {
			base["use_sliding_window"], base["layer_types"], base["max_window_layers"] = true, nil, 1.0
		}
		base["rope_theta"], base["rope_scaling"] = 1000.0, map[string]any{"rope_type": "default"}
		for name, value := range values {
			config := maps.Clone(base)
			if config[name] = value; family == "deepseek_v3" && name == "num_key_value_heads" {
				continue // it must be the number of heads, and results do not depend on it
			}
			want := described(config)
			delete(config, name)
			got := described(config)
			if slices.Contains(sizes, name) && (strings.Contains(got, name+" is missing") || name == "intermediate_size" && got == want) {
				continue // layers of experts need no intermediate_size
			}
			if got != want {
				t.Errorf("%s: without %s: %s\nwith %v: %s", family, name, apart(got, want), value, apart(want, got))
			}
			if config = maps.Clone(base); name != "rope_theta" && name != "partial_rotary_factor" {
				continue
			}
			delete(config, "rope_scaling")
			delete(config, "rope_theta")
			rope := map[string]any{"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 1.0}
			rope[name] = value
			config["rope_parameters"] = rope
			want = described(config)
			delete(rope, name)
			if got := described(config); got != want {
				t.Errorf("%s: without rope_parameters.%s: %s\nwith %v: %s", family, name, apart(got, want), value, apart(want, got))
			}
		}
	}
}

// A setting that is true or false and null in config.json means what transformers' class makes of null, which testdata/defaults.py has
// tried.
func TestNulls(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "nulls.json"))
	require.NoError(t, err)
	var families map[string]map[string]bool
	require.NoError(t, json.Unmarshal(text, &families))
	require.ElementsMatch(t, names(), slices.Collect(maps.Keys(families)))
	for family, values := range families {
		for name, value := range values {
			config := configOf(t, family)
			config[name] = value
			want := described(config)
			config[name] = nil
			if got := described(config); got != want {
				t.Errorf("%s: %s is null: %s\nwith %v: %s", family, name, apart(got, want), value, apart(want, got))
			}
		}
	}
	truncated := func(value any) string { // a member of an object
		config := configOf(t, "gpt_oss")
		rope := config["rope_parameters"].(map[string]any)
		rope["original_max_position_embeddings"], rope["truncate"] = 500, value
		return described(config)
	}
	require.NotEqual(t, truncated(true), truncated(false))
	require.Equal(t, truncated(false), truncated(nil))
}

// configOf returns the config.json of a model of testdata.
func configOf(t *testing.T, name string) (config map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name, checkpoint.ConfigName))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &config))
	return config
}
