package convert

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/quant"
	"github.com/gomoe/gomoe/tokenizer"
)

// folderOf returns a folder with a model of package models' testdata and a tokenizer of as many tokens, which are bytes.
func folderOf(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	from := filepath.Join("../models/testdata", name)
	for _, name := range []string{safetensors.FileName, checkpoint.ConfigName} {
		data, err := os.ReadFile(filepath.Join(from, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o666))
	}
	config, err := checkpoint.ReadConfig(filepath.Join(dir, checkpoint.ConfigName))
	require.NoError(t, err)
	vocab, _, err := config.Int("vocab_size")
	require.NoError(t, err)
	data, err := tokenizer.Bytes()
	require.NoError(t, err)
	var f map[string]any
	require.NoError(t, json.Unmarshal(data, &f))
	ids := f["model"].(map[string]any)["vocab"].(map[string]any)
	for text, id := range ids {
		if int(id.(float64)) >= vocab {
			delete(ids, text)
		}
	}
	data, err = json.Marshal(f)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, tokenizer.FileName), data, 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte("{{ messages[0].content }}"), 0o666))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "additional_chat_templates"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "additional_chat_templates/tool_use.jinja"), []byte("{{ tools|length }} tool"), 0o666))
	return dir
}

// open opens a model with its parameters.
func open(t *testing.T, path string) (*checkpoint.Checkpoint, *models.Model, []nn.Param) {
	t.Helper()
	c, err := checkpoint.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	m, err := models.Open(c)
	require.NoError(t, err)
	params, err := models.Params(m, c)
	require.NoError(t, err)
	return c, m, params
}

// weights returns the parameters of a model by name.
func weights(t *testing.T, path string) map[string]array.Array {
	t.Helper()
	c, _, params := open(t, path)
	all := map[string]array.Array{}
	for _, p := range params {
		w, err := models.Find(c, p)
		require.NoError(t, err)
		a, err := w.Array()
		require.NoError(t, err)
		all[p.Name] = a
	}
	return all
}

// greedy returns tokens that a model writes.
func greedy(t *testing.T, path string) (ids []int32) {
	t.Helper()
	c, m, _ := open(t, path)
	tok, err := generate.Tokenizer(c)
	require.NoError(t, err)
	prompt, err := tok.Encode("#%!$", tokenizer.Options{})
	require.NoError(t, err)
	require.Len(t, prompt, 4)
	g, err := generate.Open(t.Context(), m, c, generate.Options{Room: 32})
	require.NoError(t, err)
	defer g.Close()
	_, err = g.Generate(context.Background(), generate.Request{Prompt: prompt, N: 24}, func(x generate.Token) bool {
		ids = append(ids, x.ID)
		return true
	})
	require.NoError(t, err)
	return ids
}

func said(m *models.Model) map[string]string {
	all := map[string]string{}
	for _, s := range m.Settings {
		if s.Name != "" && !models.Absent(s.Value) { // some have two names in Hugging Face's files
			all[cmp.Or(s.GGUF, strings.Replace(s.Name, "rope_parameters", "rope_scaling", 1))] = fmt.Sprintf("%.6v", s.Value)
		}
	}
	return all
}

// Every family goes from Hugging Face's files to a GGUF file, to MLX's layout and back with the same bits, the same settings
// and the same tokens.
func TestRoundTrip(t *testing.T) {
	dirs, err := filepath.Glob("../models/testdata/*/" + checkpoint.ConfigName)
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, dir := range dirs {
		name := filepath.Base(filepath.Dir(dir))
		config, err := checkpoint.ReadConfig(dir)
		require.NoError(t, err)
		if !slices.ContainsFunc(models.Families(), func(f models.Family) bool { return f.Name == config.Architecture }) || name == "deepseek_v3_fp8" {
			continue // a part of a model; and one of TestScaled
		}
		t.Run(name, func(t *testing.T) {
			src := portable(t, name)
			_, m, _ := open(t, src)
			want, tokens := weights(t, src), greedy(t, src)
			out := t.TempDir()
			path := src
			for i, next := range []string{"a.gguf", "folder", "mlx", "b.gguf", "c.gguf"} {
				o := Options{Layout: LayoutOf(next)}
				if strings.HasPrefix(next, "mlx") {
					o.Layout = MLX
				}
				done, total := int64(0), int64(0)
				o.Progress = func(d, all int64) { done, total = d, all }
				next = filepath.Join(out, next)
				err := Model(context.Background(), next, path, o)
				if why, ok := map[string]string{"deepseek_v2_groups": "n_group is 3, and llama.cpp takes 1 for deepseek_v2 whatever the file says"}[name]; ok && o.Layout == GGUF {
					require.ErrorContains(t, err, why)
					continue
				}
				require.NoError(t, err, "step %d", i)
				if name == "gpt_oss_mxfp4" && o.Layout != GGUF { // which have the numbers in bf16
					c, _, _ := open(t, next)
					_, says := c.Config.Value("quantization_config")
					require.False(t, says)
					for p, x := range numbers(t, src) {
						require.True(t, array.Equal(x, numbers(t, next)[p]), p)
					}
					continue
				}
				require.Equal(t, total, done)
				require.NotZero(t, done)
				path = next
				require.Equal(t, tokens, greedy(t, path), path)
				c, again, _ := open(t, path)
				if v, ok := c.Config.Value(".rope.scaling.original_context_length"); ok && c.Format == checkpoint.GGUF {
					require.IsType(t, uint32(0), v, "llama.cpp opens no other file")
				}
				for key, value := range said(again) {
					if strings.HasPrefix(key, ".") {
						require.Equal(t, said(m)[key], value, "%s: %s", path, key)
					}
				}
				if name == "gpt_oss" && o.Layout == Safetensors { // transformers has written the other
					first, err := checkpoint.Open(src)
					require.NoError(t, err)
					require.Len(t, c.Tensors, len(first.Tensors))
					for _, x := range first.Tensors {
						y, err := c.Tensor(x.Name)
						require.NoError(t, err)
						require.Equal(t, x.Type, y.Type, x.Name)
						require.Equal(t, x.Mem, y.Mem, x.Name)
					}
					require.NoError(t, first.Close())
				}
				if c.Format == checkpoint.Safetensors {
					require.Equal(t, said(m), said(again), path)
					got := weights(t, path)
					require.Len(t, got, len(want))
					for name, a := range want {
						if !array.Equal(a, got[name]) {
							t.Errorf("%s: %s differs", path, name)
						}
					}
				}
				tok, err := generate.Tokenizer(c)
				require.NoError(t, err)
				text, err := tok.Template(tokenizer.Conversation{Messages: json.RawMessage(`[{"role":"user","content":"x"}]`)})
				require.NoError(t, err)
				require.Equal(t, "x", text)
				text, err = tok.Template(tokenizer.Conversation{Messages: json.RawMessage(`[]`), Tools: json.RawMessage(`[{}]`)})
				require.NoError(t, err)
				require.Equal(t, "1 tool", text)
			}
		})
	}
}

// Llama-3's positions become the tensor of factors that llama.cpp reads, which stays in every GGUF file that is made of it, and
// nothing that would scale them once more.
func TestLlama3(t *testing.T) {
	out := t.TempDir()
	src := made(t, "llama", map[string]any{"rope_parameters": map[string]any{"rope_theta": 1000, "rope_type": "llama3", "factor": 4, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 128}}, nil)
	tokens := greedy(t, src)
	path := src
	for _, next := range []string{"a.gguf", "b.gguf"} {
		next = filepath.Join(out, next)
		require.NoError(t, Model(context.Background(), next, path, Options{Layout: GGUF}))
		path = next
		c, m, _ := open(t, path)
		for _, key := range []string{".rope.scaling.type", ".rope.scaling.factor", ".rope.scaling.original_context_length"} {
			if v, ok := c.Config.Value(key); ok {
				t.Errorf("%s: %s is %v", path, key, v)
			}
		}
		x, err := c.Tensor(models.RopeFactors)
		require.NoError(t, err)
		require.Equal(t, graph.F32, x.Type.DType)
		kept := (128*0.1/(2*math.Pi) - 1) / 3 // of the second pair, which turns more than once in 128 positions and less than 4 times
		require.InDeltaSlice(t, []float32{1, float32(1 / ((1-kept)/4 + kept)), 4}, m.RopeFactors, 1e-6)
		require.Equal(t, tokens, greedy(t, path))
	}
	other := made(t, "olmoe", map[string]any{"rope_parameters": map[string]any{"rope_theta": 1000, "rope_type": "llama3", "factor": 4, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 128}, "clip_qkv": nil}, nil)
	require.ErrorContains(t, Model(context.Background(), filepath.Join(out, "other.gguf"), other, Options{Layout: GGUF}), "rope_scaling.rope_type is llama3, and llama.cpp takes default or linear or yarn for olmoe whatever the file says")
	// A folder has the settings that the factors follow from.
	for _, o := range []Options{{Layout: Safetensors}, {Layout: MLX}} {
		folder := filepath.Join(t.TempDir(), "folder")
		require.NoError(t, Model(context.Background(), folder, path, o))
		config, err := checkpoint.ReadConfig(filepath.Join(folder, checkpoint.ConfigName))
		require.NoError(t, err)
		scaling, _ := config.Value("rope_scaling")
		require.Equal(t, map[string]any{"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 128.0}, scaling)
		require.Equal(t, tokens, greedy(t, folder))
	}
	require.NoError(t, Model(context.Background(), filepath.Join(out, "mlx"), src, Options{Layout: MLX}))
	require.Equal(t, tokens, greedy(t, filepath.Join(out, "mlx")))
}

// wide writes a Mixtral whose rows are whole blocks.
func wide(t *testing.T, change func(name string, x []float32)) string {
	t.Helper()
	return made(t, "mixtral", map[string]any{"hidden_size": 256, "intermediate_size": 96, "head_dim": 64}, change)
}

// made writes a model like that of testdata with other settings.
func made(t *testing.T, name string, settings map[string]any, change func(name string, x []float32)) string {
	t.Helper()
	dir := configured(t, name, settings)
	c, err := checkpoint.Open(dir)
	require.NoError(t, err)
	m, err := models.Open(c)
	require.NoError(t, err)
	var params []nn.Param
	_, err = graph.Trace("model", func(tr *graph.Tracer) []*graph.Value {
		s := nn.New(tr, nn.Options{})
		out := m.Forward(s, tr.Input("tokens", graph.I32, 1, 1), &nn.Step{})
		params = s.Params()
		return []*graph.Value{out}
	})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	var all []tensor.Source
	for _, p := range params {
		n, shape := 1, p.Type.Shape
		if strings.Contains(p.Name, "*") {
			n, shape = shape[0], shape[1:]
		}
		for e := range n {
			a := array.New(graph.T(graph.F32, shape...))
			x := array.Data[float32](a)
			for i := range x {
				x[i] = float32(math.Sin(float64(i*7+e+len(all)))) * 0.2
			}
			name := strings.Replace(p.Name, "*", fmt.Sprint(e), 1)
			if change != nil {
				change(name, x)
			}
			all = append(all, tensor.Of(name, a))
		}
	}
	require.NoError(t, safetensors.Write(filepath.Join(dir, safetensors.FileName), nil, all))
	return dir
}

// The types are those that llama.cpp takes, the blocks are those of package quant, and errors are within a step of the type.
func TestQuantize(t *testing.T) {
	src := wide(t, nil)
	want := weights(t, src)
	const q, down, head, table, router, norm = "model.layers.0.self_attn.v_proj.weight", "model.layers.0.block_sparse_moe.experts.*.w2.weight",
		"lm_head.weight", "model.embed_tokens.weight", "model.layers.1.block_sparse_moe.gate.weight", "model.norm.weight"
	for d, types := range map[graph.DType]map[string]graph.DType{
		graph.F16:   {q: graph.F16, down: graph.F16, head: graph.F16, table: graph.F16},
		graph.BF16:  {q: graph.BF16, down: graph.BF16, head: graph.BF16, table: graph.BF16},
		graph.Q8_0:  {q: graph.Q8_0, down: graph.Q8_0, head: graph.Q8_0, table: graph.Q8_0},
		graph.Q6_K:  {q: graph.Q6_K, down: graph.Q8_0, head: graph.Q6_K, table: graph.Q6_K},
		graph.Q4_K:  {q: graph.Q4_K, down: graph.Q5_0, head: graph.Q6_K, table: graph.Q4_K},
		graph.MXFP4: {q: graph.Q8_0, down: graph.MXFP4, head: graph.Q8_0, table: graph.Q8_0},
	} {
		types[router], types[norm] = graph.F32, graph.F32
		out := filepath.Join(t.TempDir(), "m.gguf")
		require.NoError(t, Model(context.Background(), out, src, Options{Layout: GGUF, Type: d}))
		c, _, _ := open(t, out)
		n, _, err := c.Config.Int(keyFileType)
		require.NoError(t, err)
		require.Equal(t, fileType(d), n)
		got := weights(t, out)
		for name, typ := range types {
			a := got[name]
			require.Equal(t, typ, a.Type.DType, "%s %s", d, name)
			blocks := array.New(a.Type)
			x := array.Data[float32](want[name])
			if typ.IsBlock() {
				require.NoError(t, quant.Quantize(blocks.Bytes(), typ, x))
			} else {
				require.NoError(t, array.Convert(blocks, want[name]))
			}
			require.Equal(t, blocks.Bytes(), a.Bytes(), "%s %s", d, name)
			// steps between numbers of the type, where the largest is 0.2
			bound := map[graph.DType]float64{graph.F32: 0, graph.F16: 1e-4, graph.BF16: 1e-3, graph.Q8_0: 0.001, graph.Q6_K: 0.008, graph.Q5_0: 0.016, graph.Q4_K: 0.025, graph.MXFP4: 0.05}[typ]
			for i, y := range array.Data[float32](a.As(graph.F32)) {
				if e := math.Abs(float64(y - x[i])); e > bound {
					t.Fatalf("%s %s: element %d is off by %g, want at most %g", d, name, i, e, bound)
				}
			}
		}
		require.Len(t, greedy(t, out), 24)
	}
	// A folder of Hugging Face says its type.
	out := filepath.Join(t.TempDir(), "half")
	require.NoError(t, Model(context.Background(), out, src, Options{Layout: Safetensors, Type: graph.BF16}))
	config, err := checkpoint.ReadConfig(filepath.Join(out, checkpoint.ConfigName))
	require.NoError(t, err)
	name, ok := config.Value("dtype")
	if !ok {
		name, _ = config.Value("torch_dtype")
	}
	require.Equal(t, "bfloat16", name)
	require.Equal(t, graph.BF16, weights(t, out)[norm].Type.DType)
}

// What cannot be written leaves nothing behind.
func TestRefuses(t *testing.T) {
	src := wide(t, nil)
	q4 := filepath.Join(t.TempDir(), "q4.gguf")
	require.NoError(t, Model(context.Background(), q4, src, Options{Layout: GGUF, Type: graph.Q4_K}))
	large := wide(t, func(name string, x []float32) {
		if name == "model.layers.1.self_attn.o_proj.weight" {
			x[300] = 7e4
		}
	})
	bare := wide(t, nil)
	require.NoError(t, os.Remove(filepath.Join(bare, tokenizer.FileName)))
	ended, cancel := context.WithCancel(context.Background())
	stop := Options{Layout: GGUF, Progress: func(done, total int64) {
		if done > total/2 {
			cancel()
		}
	}}
	for _, c := range []struct {
		ctx  context.Context
		src  string
		o    Options
		want string
	}{
		{ended, src, stop, "context canceled"},
		{ended, src, Options{Layout: Safetensors}, "context canceled"},
		{nil, q4, Options{Layout: Safetensors}, `is in blocks of q4_k, which safetensors files do not have: ask for f32, f16 or bf16`},
		{nil, src, Options{Layout: MLX, Type: graph.Q8_0}, "element type q8_0 is for GGUF files, want f32, f16 or bf16"},
		{nil, src, Options{Layout: GGUF, Type: graph.I32}, "element type i32, want one of f32, f16, bf16"},
		{nil, src, Options{}, `layout "", want safetensors, mlx or gguf`},
		{nil, large, Options{Layout: GGUF, Type: graph.F16}, "parameter model.layers.1.self_attn.o_proj.weight: the number 70000, which elements of f16 cannot be"},
		{nil, large, Options{Layout: GGUF, Type: graph.Q8_0}, "the number 70000, which elements of q8_0 cannot be"},
		{nil, folderOf(t, "qwen3_moe"), Options{Layout: GGUF}, "config.json: mlp_only_layers is [0], and llama.cpp takes none for qwen3_moe whatever the file says"},
		{nil, bare, Options{Layout: GGUF}, "a folder without a tokenizer, want tokenizer.json"},
	} {
		if c.ctx == nil {
			c.ctx = context.Background()
		}
		dir := t.TempDir()
		require.ErrorContains(t, Model(c.ctx, filepath.Join(dir, "out"), c.src, c.o), c.want)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries, c.want)
	}
	for _, o := range []Options{{Layout: GGUF}, {Layout: Safetensors, Type: graph.F16}} {
		require.EqualError(t, Model(context.Background(), "", q4, o), "convert: the name of what is written is empty, want a folder, or a file that ends with .gguf")
		require.ErrorContains(t, Model(context.Background(), q4, q4, o), "q4.gguf: this is there already; remove it, or give another name")
	}
	require.NoError(t, Model(context.Background(), filepath.Join(t.TempDir(), "f16"), q4, Options{Layout: Safetensors, Type: graph.F16}))
}

// Layers that predict further tokens are left out, are named, and are not announced.
func TestFurtherLayers(t *testing.T) {
	src := made(t, "glm4_moe", map[string]any{"num_nextn_predict_layers": 1}, nil)
	const name = "model.layers.2.eh_proj.weight"
	c, err := checkpoint.Open(src)
	require.NoError(t, err)
	all := []tensor.Source{tensor.Of(name, array.New(graph.T(graph.F32, 16, 32)))}
	for _, x := range c.Tensors {
		a, err := x.Array()
		require.NoError(t, err)
		all = append(all, tensor.Of(x.Name, a))
	}
	whole := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(whole, "m"), os.DirFS(src)))
	whole = filepath.Join(whole, "m")
	require.NoError(t, safetensors.Write(filepath.Join(whole, safetensors.FileName), nil, all))
	require.NoError(t, c.Close())

	want, out, path := greedy(t, src), t.TempDir(), whole
	for i, next := range []string{"folder", "a.gguf", "b.gguf"} {
		var left []string
		next = filepath.Join(out, next)
		require.NoError(t, Model(context.Background(), next, path, Options{Layout: LayoutOf(next), LeftOut: func(names []string) { left = names }}))
		if i == 0 {
			require.Equal(t, []string{name}, left)
		} else {
			require.Nil(t, left)
		}
		path = next
		require.Equal(t, want, greedy(t, path))
		c, _, _ := open(t, path)
		n, _, err := c.Config.Int(map[bool]string{true: ".nextn_predict_layers", false: "num_nextn_predict_layers"}[c.Config.GGUF()])
		require.NoError(t, err)
		require.Zero(t, n)
	}

	// A GGUF file that has them.
	f, err := gguf.Open(path)
	require.NoError(t, err)
	meta := slices.Clone(f.Meta)
	for i, m := range meta {
		if m.Key == "glm4moe.block_count" {
			meta[i].Value = uint32(3)
		}
	}
	meta = append(meta, gguf.Meta{Key: "glm4moe.nextn_predict_layers", Value: uint32(1)})
	all = []tensor.Source{tensor.Of("blk.2.nextn.eh_proj.weight", array.New(graph.T(graph.F32, 16, 32)))}
	for _, x := range f.Tensors {
		a, err := x.Array()
		require.NoError(t, err)
		all = append(all, tensor.Of(x.Name, a))
	}
	path = filepath.Join(out, "further.gguf")
	require.NoError(t, gguf.Write(path, meta, all))
	require.NoError(t, f.Close())
	next := filepath.Join(out, "c.gguf")
	var left []string
	require.NoError(t, Model(context.Background(), next, path, Options{Layout: GGUF, LeftOut: func(names []string) { left = names }}))
	require.Equal(t, []string{"blk.2.nextn.eh_proj.weight"}, left)
	c, m, _ := open(t, next)
	require.Equal(t, 2, m.Layers)
	_, announced := c.Config.Value(".nextn_predict_layers")
	require.False(t, announced)
	require.Equal(t, want, greedy(t, next))
}

// A config.json that is made of a GGUF file says what transformers would otherwise take from the published sizes, and has
// floats as floats, without which transformers does not open it.
func TestSilentDefaults(t *testing.T) {
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "m.gguf"), filepath.Join(dir, "folder")
	require.NoError(t, Model(context.Background(), file, portable(t, "glm4_moe"), Options{Layout: GGUF}))
	require.NoError(t, Model(context.Background(), folder, file, Options{Layout: Safetensors}))
	text, err := os.ReadFile(filepath.Join(folder, checkpoint.ConfigName))
	require.NoError(t, err)
	require.Contains(t, string(text), `"routed_scaling_factor": 1.5,`)
	require.Contains(t, string(text), `"rope_theta": 1000.0,`)

	for _, x := range []struct {
		name     string
		settings map[string]any
		want     []string
	}{
		{"deepseek_v3", map[string]any{"rms_norm_eps": 1e-6, "first_k_dense_replace": 0, "n_group": 1, "topk_group": 1, "num_nextn_predict_layers": 0, "rope_parameters": map[string]any{"rope_type": "default", "rope_theta": 1000.0}},
			[]string{`"first_k_dense_replace": 0,`, `"n_group": 1,`, `"topk_group": 1,`, `"num_nextn_predict_layers": 0,`}},
		{"glm4_moe", map[string]any{"first_k_dense_replace": 0}, []string{`"first_k_dense_replace": 0,`, `"partial_rotary_factor": 0.5`}},
		{"gpt_oss", map[string]any{"swiglu_limit": 7.0, "rope_parameters": map[string]any{"rope_type": "default", "rope_theta": 1000.0}}, []string{`"rope_type": "default"`}},
	} {
		dir := t.TempDir()
		file, folder := filepath.Join(dir, "m.gguf"), filepath.Join(dir, "folder")
		require.NoError(t, Model(context.Background(), file, made(t, x.name, x.settings, nil), Options{Layout: GGUF}))
		require.NoError(t, Model(context.Background(), folder, file, Options{Layout: Safetensors}))
		text, err := os.ReadFile(filepath.Join(folder, checkpoint.ConfigName))
		require.NoError(t, err)
		for _, want := range x.want {
			require.Contains(t, string(text), want, x.name)
		}
	}
}
