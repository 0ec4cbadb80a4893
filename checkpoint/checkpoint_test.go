package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/gguf"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// zeros returns a source of a type without contents.
func zeros(name string, d graph.DType, shape ...int) tensor.Source {
	return tensor.Of(name, array.New(graph.T(d, shape...)))
}

// save writes a safetensors file and a config.json to a new folder.
func save(t *testing.T, config string, tensors ...tensor.Source) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, safetensors.Write(filepath.Join(dir, safetensors.FileName), nil, tensors))
	if config != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ConfigName), []byte(config), 0o666))
	}
	return dir
}

func open(t *testing.T, path string) *Checkpoint {
	t.Helper()
	c, err := Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestOpen(t *testing.T) {
	dir := save(t, `{"model_type":"olmoe"}`, zeros("a", graph.F32, 2))
	set := t.TempDir()
	require.NoError(t, safetensors.WriteSet(set, nil, []tensor.Source{zeros("a", graph.F32, 2), zeros("b", graph.F32, 2)}, 8))
	ggufs := t.TempDir()
	require.NoError(t, gguf.Write(filepath.Join(ggufs, "m.gguf"), []gguf.Meta{{Key: "general.architecture", Value: "olmoe"}}, []tensor.Source{zeros("a", graph.F32, 2)}))
	for _, c := range []struct {
		path, format, architecture string
		files, tensors             int
	}{
		{dir, Safetensors, "olmoe", 1, 1},
		{filepath.Join(dir, "model.safetensors"), Safetensors, "olmoe", 1, 1},
		{set, Safetensors, "", 2, 2},
		{filepath.Join(set, "model.safetensors.index.json"), Safetensors, "", 2, 2},
		{filepath.Join(set, "model-00002-of-00002.safetensors"), Safetensors, "", 1, 1},
		{ggufs, GGUF, "olmoe", 1, 1},
		{filepath.Join(ggufs, "m.gguf"), GGUF, "olmoe", 1, 1},
	} {
		m := open(t, c.path)
		if m.Format != c.format || m.Config.Architecture != c.architecture || len(m.Files) != c.files || len(m.Tensors) != c.tensors {
			t.Errorf("%s: %s %q, %d files, %d tensors, want %+v", c.path, m.Format, m.Config.Architecture, len(m.Files), len(m.Tensors), c)
		}
	}
	_, err := open(t, set).Tensor("aa")
	require.EqualError(t, err, `checkpoint: `+set+`: there is no tensor "aa"; did you mean a?`)
}

func TestOpenRefuses(t *testing.T) {
	empty, two, ggufs := t.TempDir(), t.TempDir(), t.TempDir()
	for _, name := range []string{"a.safetensors", "b.safetensors"} {
		require.NoError(t, safetensors.Write(filepath.Join(two, name), nil, nil))
	}
	for _, name := range []string{"a.gguf", "b-00001-of-00002.gguf", "b-00002-of-00002.gguf"} {
		require.NoError(t, gguf.Write(filepath.Join(ggufs, name), nil, nil))
	}
	state := filepath.Join(t.TempDir(), "[a")
	require.NoError(t, os.Mkdir(state, 0o755))
	require.NoError(t, safetensors.Write(filepath.Join(state, "part-00001-of-00001.safetensors"), nil, nil))
	require.NoError(t, os.WriteFile(filepath.Join(state, "manifest.json"), nil, 0o644))
	removed := filepath.Join(t.TempDir(), "step-00000003")
	require.NoError(t, os.Mkdir(removed, 0o755))
	require.NoError(t, safetensors.Write(filepath.Join(removed, "part-00001-of-00001.safetensors"), nil, nil))
	pickle := t.TempDir()
	for _, name := range []string{"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin", "training_args.bin", "pytorch_model.bin.index.json"} {
		require.NoError(t, os.WriteFile(filepath.Join(pickle, name), nil, 0o644))
	}
	for _, c := range [][2]string{
		{pickle, pickle + ": pytorch_model-00001-of-00002.bin is a pickle file of PyTorch, want model.safetensors or model.safetensors.index.json; load the model with transformers and save it"},
		{removed, removed + ": a checkpoint of a training run without manifest.json: it is not complete, or its run is removing it; take one that has that file"},
		{state, state + ": manifest.json: ends in the middle; is it complete?"},
		{empty, "no model in the folder, want model.safetensors, model.safetensors.index.json, or a file that ends with .safetensors or .gguf"},
		{two, `the folder has 2 models ["a.safetensors", "b.safetensors"], want one, or the path of one of them`},
		{ggufs, `the folder has 2 models ["a.gguf", "b-00001-of-00002.gguf"]`},
		{filepath.Join(empty, "none.gguf"), "no such file"},
		{os.Args[0], "want a folder, or a file whose name ends with .safetensors, .gguf or .safetensors.index.json"},
		{save(t, "{", zeros("a", graph.F32)), "config.json: ends in the middle; is it complete?"},
	} {
		if _, err := Open(c[0]); err == nil || !strings.HasPrefix(err.Error(), "checkpoint: ") || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("error %v\nwant %s", err, c[1])
		}
	}
}

func TestConfig(t *testing.T) {
	c := open(t, save(t, `{"model_type":"m","n":3,"x":1.5,"neg":-1,"big":1e300,"yes":true,"none":null,"rope_scaling":{"factor":4,"type":"yarn"},"list":[1]}`)).Config
	n, ok, err := c.Int("n")
	require.Equal(t, fmt.Sprint(3, true, nil), fmt.Sprint(n, ok, err))
	x, ok, err := c.Float("rope_scaling.factor")
	require.Equal(t, fmt.Sprint(4, true, nil), fmt.Sprint(x, ok, err))
	text, ok, err := c.Text("rope_scaling.type")
	require.Equal(t, fmt.Sprint("yarn", true, nil), fmt.Sprint(text, ok, err))
	yes, ok, err := c.Bool("yes")
	require.Equal(t, fmt.Sprint(true, true, nil), fmt.Sprint(yes, ok, err))
	for _, key := range []string{"none", "other", "n.x", "rope_scaling.other"} {
		_, ok, err := c.Float(key)
		require.Equal(t, fmt.Sprint(false, nil), fmt.Sprint(ok, err), key)
	}
	for _, key := range []string{"x", "neg", "big", "yes", "list"} {
		_, ok, err := c.Int(key)
		if ok || err == nil || !strings.Contains(err.Error(), "config.json: "+key+" is ") {
			t.Errorf("%s: %v %v", key, ok, err)
		}
	}
	if _, _, err := c.Bool("n"); err == nil || !strings.Contains(err.Error(), `n is "3", want true or false`) {
		t.Errorf("error %v", err)
	}
	if _, _, err := c.Text("n"); err == nil || !strings.Contains(err.Error(), `n is "3", want text`) {
		t.Errorf("error %v", err)
	}

	c = NewConfig("config.json", map[string]any{"n": "3", "x": "1e-5", "yes": "true", "word": "three"})
	_, _, err = c.Int("n")
	require.EqualError(t, err, `config.json: n is "3", want a number, without quotes`)
	_, _, err = c.Float("x")
	require.EqualError(t, err, `config.json: x is "1e-5", want a number, without quotes`)
	_, _, err = c.Bool("yes")
	require.EqualError(t, err, `config.json: yes is "true", want true or false, without quotes`)
	_, _, err = c.Int("word")
	require.EqualError(t, err, `config.json: word is "three", want a number`)
	_, err = c.IDs("n")
	require.EqualError(t, err, `config.json: n is "3", want the id of a token, or a list of them, without quotes`)

	path := filepath.Join(t.TempDir(), "a.gguf")
	require.NoError(t, gguf.Write(path, []gguf.Meta{{Key: "general.architecture", Value: "olmoe"}, {Key: "olmoe.block_count", Value: uint32(7)}, {Key: "olmoe.eps", Value: float32(0.5)}}, nil))
	c = open(t, path).Config
	n, ok, err = c.Int(".block_count")
	require.Equal(t, fmt.Sprint(7, true, nil), fmt.Sprint(n, ok, err))
	x, ok, err = c.Float(".eps")
	require.Equal(t, fmt.Sprint(0.5, true, nil), fmt.Sprint(x, ok, err))
}

func TestRole(t *testing.T) {
	for _, c := range []struct {
		architecture, name string
		want               Role
	}{
		{"olmoe", "model.embed_tokens.weight", Role{Embedding, -1, -1, "", false}},
		{"olmoe", "model.layers.3.mlp.experts.12.down_proj.weight", Role{Experts, 3, 12, PerExpert, false}},
		{"olmoe", "model.layers.3.mlp.gate.weight", Role{Router, 3, -1, "", false}},
		{"olmoe", "model.layers.3.self_attn.q_norm.weight", Role{Attention, 3, -1, "", false}},
		{"olmoe", "model.layers.3.input_layernorm.weight", Role{Norms, 3, -1, "", false}},
		{"olmoe", "model.norm.weight", Role{Norms, -1, -1, "", false}},
		{"olmoe", "lm_head.weight", Role{Head, -1, -1, "", false}},
		{"mixtral", "model.layers.0.block_sparse_moe.experts.7.w1.weight", Role{Experts, 0, 7, PerExpert, false}},
		{"mixtral", "model.layers.0.block_sparse_moe.gate.weight", Role{Router, 0, -1, "", false}},
		{"qwen2_moe", "model.layers.0.mlp.shared_expert.gate_proj.weight", Role{Shared, 0, -1, "", false}},
		{"qwen2_moe", "model.layers.0.mlp.shared_expert_gate.weight", Role{Shared, 0, -1, "", false}},
		{"deepseek_v3", "model.layers.9.mlp.shared_experts.up_proj.weight", Role{Shared, 9, -1, "", false}},
		{"deepseek_v3", "model.layers.9.mlp.gate.e_score_correction_bias", Role{Router, 9, -1, "", false}},
		{"deepseek_v3", "model.layers.9.mlp.experts.255.up_proj.weight_scale_inv", Role{Experts, 9, 255, PerExpert, true}},
		{"deepseek_v3", "model.layers.0.mlp.up_proj.weight", Role{Dense, 0, -1, "", false}},
		{"deepseek_v3", "model.layers.0.self_attn.kv_a_layernorm.weight", Role{Attention, 0, -1, "", false}},
		{"qwen3_moe", "model.layers.1.mlp.experts.gate_up_proj", Role{Experts, 1, -1, Fused, false}},
		{"gpt_oss", "model.layers.1.mlp.experts.gate_up_proj", Role{Experts, 1, -1, Transposed, false}},
		{"gpt_oss", "model.layers.1.mlp.experts.down_proj_bias", Role{Experts, 1, -1, Transposed, false}},
		{"gpt_oss", "model.layers.1.mlp.experts.gate_up_proj_blocks", Role{Experts, 1, -1, Blocks, false}},
		{"gpt_oss", "model.layers.1.mlp.experts.down_proj_scales", Role{Experts, 1, -1, Blocks, true}},
		{"gpt_oss", "model.layers.1.mlp.router.bias", Role{Router, 1, -1, "", false}},
		{"gpt_oss", "model.layers.1.self_attn.sinks", Role{Attention, 1, -1, "", false}},
		{"qwen3_moe", "model.layers.1.mlp.switch_mlp.up_proj.scales", Role{Experts, 1, -1, Stacked, true}},
		{"deepseek_v4", "layers.2.ffn.gate.tid2eid", Role{Router, 2, -1, "", false}},
		{"olmoe", "token_embd.weight", Role{Embedding, -1, -1, "", false}},
		{"olmoe", "blk.5.ffn_gate_exps.weight", Role{Experts, 5, -1, Stacked, false}},
		{"olmoe", "blk.5.ffn_gate_inp.weight", Role{Router, 5, -1, "", false}},
		{"deepseek2", "blk.5.ffn_up_shexp.weight", Role{Shared, 5, -1, "", false}},
		{"qwen2moe", "blk.5.ffn_gate_inp_shexp.weight", Role{Shared, 5, -1, "", false}},
		{"deepseek2", "blk.5.exp_probs_b.bias", Role{Router, 5, -1, "", false}},
		{"olmoe", "blk.5.attn_q.weight", Role{Attention, 5, -1, "", false}},
		{"olmoe", "blk.5.attn_norm.weight", Role{Norms, 5, -1, "", false}},
		{"olmoe", "blk.5.ffn_up.weight", Role{Dense, 5, -1, "", false}},
		{"olmoe", "output_norm.weight", Role{Norms, -1, -1, "", false}},
		{"olmoe", "output.weight", Role{Head, -1, -1, "", false}},
		{"olmoe", "rope_freqs.weight", Role{Other, -1, -1, "", false}},
	} {
		if got := NamesOf(c.architecture).Role(c.name); got != c.want {
			t.Errorf("%s %s is %+v, want %+v", c.architecture, c.name, got, c.want)
		}
	}
}

func TestSummary(t *testing.T) {
	var tensors []tensor.Source
	for e := range 3 {
		tensors = append(tensors, zeros(fmt.Sprintf("model.layers.1.mlp.experts.%d.up_proj.weight", e), graph.BF16, 2, 4))
	}
	tensors = append(tensors, zeros("model.embed_tokens.weight", graph.F32, 5, 4))
	c := open(t, save(t, `{"model_type":"olmoe","num_experts_per_tok":2}`, tensors...))
	s, err := c.Summary()
	require.NoError(t, err)
	require.Equal(t, &Summary{
		Layers: 2, Experts: 3, TopK: 2, Layouts: []Layout{PerExpert}, Parameters: 44, Active: 36, Bytes: 128,
		Parts: []PartSummary{{Embedding, 1, 20, 80, []string{"F32"}}, {Experts, 3, 24, 48, []string{"BF16"}}},
	}, s)

	m, err := sharding.ParseMesh("dp=2,ep=2")
	require.NoError(t, err)
	held, err := c.Held(m)
	require.NoError(t, err)
	require.Equal(t, []Held{{0, 2, 112}, {2, 1, 96}, {0, 2, 112}, {2, 1, 96}}, held)
	m, err = sharding.ParseMesh("ep=0/1-3")
	require.NoError(t, err)
	if _, err := c.Held(m); err == nil || !strings.Contains(err.Error(), "axis ep has ranges of 4 experts, want the model's 3") {
		t.Errorf("error %v", err)
	}
	m, err = sharding.ParseMesh("tp=2")
	require.NoError(t, err)
	if _, err := c.Held(m); err == nil || !strings.Contains(err.Error(), "axis tp: want ep") {
		t.Errorf("error %v", err)
	}
}

// Numbers that lie several in an element are counted one by one, and scales are none.
func TestParametersInParts(t *testing.T) {
	for _, c := range []struct {
		config  string
		tensors []tensor.Source
		want    int64
	}{
		{`{"model_type":"qwen3_moe","quantization":{"group_size":32,"bits":4}}`, []tensor.Source{
			zeros("model.layers.0.mlp.switch_mlp.up_proj.weight", graph.U32, 2, 8, 8),
			zeros("model.layers.0.mlp.switch_mlp.up_proj.scales", graph.F16, 2, 8, 2),
			zeros("model.layers.0.mlp.switch_mlp.up_proj.biases", graph.F16, 2, 8, 2),
		}, 2 * 8 * 64},
		{`{"model_type":"gpt_oss"}`, []tensor.Source{
			zeros("model.layers.0.mlp.experts.down_proj_blocks", graph.U8, 2, 8, 2, 16),
			zeros("model.layers.0.mlp.experts.down_proj_scales", graph.U8, 2, 8, 2),
		}, 2 * 8 * 64},
		{`{"model_type":"deepseek_v3"}`, []tensor.Source{
			zeros("model.layers.0.mlp.experts.0.down_proj.weight", graph.F8_E4M3, 8, 64),
			zeros("model.layers.0.mlp.experts.0.down_proj.weight_scale_inv", graph.F32, 1, 1),
		}, 8 * 64},
	} {
		s, err := open(t, save(t, c.config, c.tensors...)).Summary()
		require.NoError(t, err)
		if s.Parameters != c.want {
			t.Errorf("%s: %d parameters, want %d", c.config, s.Parameters, c.want)
		}
	}
}
