package peft

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
)

func counted(shape ...int) array.Array {
	a := array.New(graph.T(graph.F32, shape...))
	for i, d := 0, array.Data[float32](a); i < len(d); i++ {
		d[i] = float32(i + shape[0])
	}
	return a
}

// model returns adapters of rank 2 and their parameters.
func model() ([]nn.Adapter, map[string]array.Array) {
	q, up := "model.layers.0.self_attn.q_proj", "model.layers.0.mlp.experts.*.up_proj"
	return []nn.Adapter{{Name: q, In: 4, Out: 3}, {Name: up, Experts: 3, In: 4, Out: 5}}, map[string]array.Array{
		q + "." + nn.LoRAA: counted(2, 4), q + "." + nn.LoRAB: counted(3, 2),
		up + "." + nn.LoRAA: counted(3, 2, 4), up + "." + nn.LoRAB: counted(3, 5, 2),
	}
}

// What is written is read again.
func TestWrite(t *testing.T) {
	adapters, arrays := model()
	dir := filepath.Join(t.TempDir(), "a", "b")
	for _, targets := range [][]string{{"q_proj", "up_proj"}, {"q_proj", "experts.*.up_proj"}} {
		want := Adapter{LoRA: nn.LoRA{Rank: 2, Alpha: 6, Dropout: 0.25, Targets: targets}, Base: "olmoe"}
		require.NoError(t, Write(dir, want, adapters, arrays))
		a, err := Open(dir, Layout{})
		require.NoError(t, err)
		require.Equal(t, want.Base, a.Base)
		require.Equal(t, nn.LoRA{Rank: 2, Alpha: 6, Targets: []string{adapters[1].Name, adapters[0].Name}}, a.LoRA)
		got, err := a.Arrays(adapters)
		require.NoError(t, err)
		require.Len(t, got, len(arrays))
		for name, x := range arrays {
			require.True(t, array.Equal(x, got[name]), name)
		}
		_, err = a.Arrays(adapters[:1])
		require.ErrorContains(t, err, "1 of 2 adapters belong to no matrix of the model")
		_, err = a.Arrays(append(adapters, nn.Adapter{Name: "other", In: 1, Out: 1}))
		require.ErrorContains(t, err, "there is no tensor for other.lora_A.weight")
		wrong := append([]nn.Adapter{}, adapters...)
		wrong[0].In = 5
		_, err = a.Arrays(wrong)
		require.ErrorContains(t, err, "has shape [2 4], want [2 5]")
		require.NoError(t, a.Close())
		text, err := os.ReadFile(filepath.Join(dir, ConfigName))
		require.NoError(t, err)
		var c struct {
			Modules    []string `json:"target_modules"`
			Parameters []string `json:"target_parameters"`
		}
		require.NoError(t, json.Unmarshal(text, &c))
		require.Equal(t, []string{adapters[0].Name}, c.Modules)
		require.Equal(t, []string{"model.layers.0.mlp.experts.gate_up_proj"}, c.Parameters)
	}
	arrays["model.layers.0.self_attn.q_proj."+nn.LoRAA] = counted(2, 5)
	require.ErrorContains(t, Write(dir, Adapter{LoRA: nn.LoRA{Rank: 2, Targets: []string{"q_proj"}}}, adapters, arrays), "q_proj.lora_A.weight is f32[2,5], want f32[2,4]")
}

// An adapter that is written and opened keeps the rank of every matrix, though gate and up add up theirs in the file:
// each has its own columns of lora_B. If both have values in a column, or none has any, both have the file's rank.
func TestKeepsRank(t *testing.T) {
	for _, l := range []Layout{{Experts: true}, {Experts: true, Interleaved: true}, {Experts: true, Block: "block_sparse_moe", Matrices: [3]string{"w1", "w2", "w3"}}} {
		block, gate, down, up := "mlp", "gate_proj", "down_proj", "up_proj"
		if l.Block != "" {
			block, gate, down, up = l.Block, "w1", "w2", "w3"
		}
		experts := "model.layers.0." + block + ".experts.*."
		all := []nn.Adapter{{Name: "model.layers.0.self_attn.q_proj", In: 4, Out: 6}, {Name: experts + gate, Experts: 3, In: 4, Out: 5}, {Name: experts + up, Experts: 3, In: 4, Out: 5}, {Name: experts + down, Experts: 3, In: 5, Out: 4}}
		for name, c := range map[string]struct {
			adapters []nn.Adapter
			rank     int
			change   func(lora map[string]array.Array)
			opened   int // rank
		}{
			"all":         {all, 2, nil, 2},
			"odd rank":    {all, 3, nil, 3},
			"rank 1":      {all, 1, nil, 1},
			"gate and up": {all[1:3], 2, nil, 2},
			"up":          {all[2:3], 2, nil, 2},
			"gate padded": {all[1:2], 2, func(lora map[string]array.Array) {
				b := array.Data[float32](lora[experts+gate+"."+nn.LoRAB])
				for i := 1; i < len(b); i += 2 {
					b[i] = 0
				}
			}, 2},
			"no values": {all, 2, func(lora map[string]array.Array) {
				for name, x := range lora {
					if strings.HasSuffix(name, nn.LoRAB) {
						clear(array.Data[float32](x))
					}
				}
			}, 4},
		} {
			lora := map[string]array.Array{}
			for _, m := range c.adapters {
				stack := []int{}
				if m.Experts > 0 {
					stack = []int{m.Experts}
				}
				lora[m.Name+"."+nn.LoRAA], lora[m.Name+"."+nn.LoRAB] = counted(append(stack, c.rank, m.In)...), counted(append(stack, m.Out, c.rank)...)
			}
			if c.change != nil {
				c.change(lora)
			}
			made := Adapter{LoRA: nn.LoRA{Rank: c.rank, Alpha: 5, Targets: []string{"any"}}, Layout: l}
			dir := t.TempDir()
			require.NoError(t, Write(dir, made, c.adapters, lora))
			a, err := Open(dir, l)
			require.NoError(t, err)
			require.Equal(t, c.opened, a.LoRA.Rank, name)
			require.Equal(t, 5/float64(c.rank), a.LoRA.Scale(), name)
			got, err := a.Arrays(c.adapters)
			require.NoError(t, err)
			for param, x := range lora {
				if c.opened == c.rank {
					require.True(t, array.Equal(x, got[param]), "%s: %s", name, param)
				}
			}
			require.NoError(t, a.Close())
		}
		dir := t.TempDir()
		wrapper := peftPrefix + "model.layers.0.mlp.experts."
		require.NoError(t, os.WriteFile(filepath.Join(dir, ConfigName), []byte(`{"peft_type": "LORA", "r": 4, "lora_alpha": 4, "target_parameters": ["experts.gate_up_proj"]}`), 0o644))
		require.NoError(t, safetensors.Write(filepath.Join(dir, FileName), nil, []tensor.Source{tensor.Of(wrapper+nn.LoRAA, counted(12, 4)), tensor.Of(wrapper+nn.LoRAB, counted(10, 12))}))
		a, err := Open(dir, l)
		require.NoError(t, err)
		require.Equal(t, 4, a.LoRA.Rank)
		got, err := a.Arrays(all[1:3])
		require.NoError(t, err)
		require.True(t, array.Equal(got[experts+gate+"."+nn.LoRAA], got[experts+up+"."+nn.LoRAA]))
		require.NoError(t, a.Close())
	}
}

// mlx-lm's adapters have matrices the other way round, and those of all experts in one tensor.
func TestMLX(t *testing.T) {
	adapters, arrays := model()
	adapters = append(adapters, nn.Adapter{Name: "model.layers.1.block_sparse_moe.experts.*.w3", Experts: 2, In: 2, Out: 1})
	w3 := adapters[2].Name + "."
	arrays[w3+nn.LoRAA], arrays[w3+nn.LoRAB] = counted(2, 2, 2), counted(2, 1, 2)
	q, up := adapters[0].Name+".", adapters[1].Name+"."
	dir := t.TempDir()
	require.NoError(t, safetensors.Write(filepath.Join(dir, MLXName), nil, []tensor.Source{
		tensor.Of("model.layers.0.self_attn.q_proj.lora_a", arrays[q+nn.LoRAA].Transposed()),
		tensor.Of("model.layers.0.self_attn.q_proj.lora_b", arrays[q+nn.LoRAB].Transposed()),
		tensor.Of("model.layers.0.mlp.switch_mlp.up_proj.lora_a", arrays[up+nn.LoRAA]),
		tensor.Of("model.layers.0.mlp.switch_mlp.up_proj.lora_b", arrays[up+nn.LoRAB]),
		tensor.Of("model.layers.1.block_sparse_moe.switch_mlp.up_proj.lora_a", arrays[w3+nn.LoRAA].Reshape(4, 2)), // as it was in old versions
		tensor.Of("model.layers.1.block_sparse_moe.switch_mlp.up_proj.lora_b", arrays[w3+nn.LoRAB]),
	}))
	config := `{"fine_tune_type": "lora", "num_layers": 16, "model": "x", "lora_parameters": {"rank": 2, "scale": 20.0, "dropout": 0.0}}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, ConfigName), []byte(config), 0o644))
	a, err := Open(dir, Layout{})
	require.NoError(t, err)
	defer a.Close()
	require.Equal(t, 20.0, a.LoRA.Scale())
	require.Equal(t, []string{adapters[1].Name, adapters[0].Name, adapters[2].Name}, a.LoRA.Targets)
	got, err := a.Arrays(adapters)
	require.NoError(t, err)
	for name, x := range arrays {
		require.True(t, array.Equal(x, got[name]), name)
	}
}

// What is written for mlx-lm is read again, under whatever name it has the experts.
func TestWriteMLX(t *testing.T) {
	adapters, arrays := model()
	adapters = append(adapters, nn.Adapter{Name: "model.layers.1.block_sparse_moe.experts.*.w2", Experts: 2, In: 2, Out: 1})
	w2 := adapters[2].Name + "."
	arrays[w2+nn.LoRAA], arrays[w2+nn.LoRAB] = counted(2, 2, 2), counted(2, 1, 2)
	for experts, want := range map[string]string{"switch_mlp": "model.layers.1.block_sparse_moe.switch_mlp.down_proj.lora_a", "experts": "model.layers.0.mlp.experts.up_proj.lora_b"} {
		dir := filepath.Join(t.TempDir(), "mlx")
		own := adapters
		if experts == "experts" {
			own = adapters[:2] // gpt-oss's experts are mlp.experts
		}
		require.NoError(t, WriteMLX(dir, Adapter{LoRA: nn.LoRA{Rank: 2, Alpha: 6, Targets: []string{"q_proj", "up_proj", "w2"}}, Base: "any"}, own, arrays, experts))
		f, err := safetensors.Open(filepath.Join(dir, MLXName))
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(f.Tensors, func(x tensor.Tensor) bool { return x.Name == want }), want)
		require.NoError(t, f.Close())
		a, err := Open(dir, Layout{})
		require.NoError(t, err)
		require.Equal(t, 3.0, a.LoRA.Scale())
		got, err := a.Arrays(own)
		require.NoError(t, err)
		for _, m := range own {
			for _, part := range []string{nn.LoRAA, nn.LoRAB} {
				require.True(t, array.Equal(arrays[m.Name+"."+part], got[m.Name+"."+part]), m.Name)
			}
		}
		require.NoError(t, a.Close())
	}
	require.ErrorContains(t, WriteMLX(t.TempDir(), Adapter{LoRA: nn.LoRA{Rank: 2, Targets: []string{"x"}}}, []nn.Adapter{{Name: "x", In: 1, Out: 1}}, nil, "experts"), "x.lora_")
}

// What changes results and is not read is an error.
func TestRefuses(t *testing.T) {
	adapters, arrays := model()
	dir := t.TempDir()
	good := Adapter{LoRA: nn.LoRA{Rank: 2, Targets: []string{"q_proj", "up_proj"}}}
	require.NoError(t, Write(dir, good, adapters, arrays))
	for config, want := range map[string]string{
		`{`:                                      "ends in the middle",
		`{"peft_type": "IA3"}`:                   `peft_type is "IA3", want LORA`,
		`{"peft_type": "LORA", "lora_alpha": 0}`: "multiplied by 0",
		`{"peft_type": "LORA", "r": 0}`:          "rank 0, want at least 1",
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "use_dora": true}`:                     "use_dora",
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "bias": "all"}`:                        `bias is "all"`,
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "fan_in_fan_out": true}`:               "fan_in_fan_out",
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "rank_pattern": {"(?=q)": 4}}`:         "rank_pattern",
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "alpha_pattern": {"[": 4}}`:            "alpha_pattern",
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "rank_pattern": {"q_proj": 0}}`:        "has rank 0",
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "init_lora_weights": "pissa_niter_4"}`: `init_lora_weights is "pissa_niter_4", with which PEFT changes the base weights`,
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "init_lora_weights": "olora"}`:         "olora",
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "init_lora_weights": "loftq"}`:         "loftq",
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "init_lora_weights": "corda"}`:         "corda",
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "alora_invocation_tokens": [1, 2]}`:    "alora_invocation_tokens is [1,2], want an adapter of every token",
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "use_qalora": true}`:                   "use_qalora",
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "lora_bias": true}`:                    "lora_bias",
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "layer_replication": [[0, 2]]}`:        "layer_replication",
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "megatron_config": {"a": 1}}`:          "megatron_config",
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "use_bdlora": {"n": 1}}`:               "use_bdlora",
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "arrow_config": {
 "n": 1}}`: `arrow_config is {"n":1}, want one adapter`,
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "kasa_config": {"n": 1}}`:       "kasa_config",
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "a_new_method": {"n": 1}}`:      "setting a_new_method is",
		`{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "target_parameters": ["gate"]}`: "want target_parameters to name gate_up_proj or down_proj of the experts",
		`{"fine_tune_type": "dora", "lora_parameters": {"rank": 2, "scale": 1}}`:        `fine_tune_type "dora"`,
		`{"fine_tune_type": "lora"}`: "want lora with lora_parameters",
		`{"fine_tune_type": "lora", "lora_parameters": {"rank": 2, "scale": 1}}`: MLXName,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ConfigName), []byte(config), 0o644))
		_, err := Open(dir, Layout{})
		require.ErrorContains(t, err, want, config)
		require.ErrorContains(t, err, "peft: ")
	}
	scaled := "\ufeff" + `{"peft_type": "LORA", "lora_alpha": 4, "r": 4, "use_rslora": true, "init_lora_weights": "gaussian", "target_parameters": ["up_proj", "experts.gate_up_proj"], "fan_in_fan_out": false,
		"loftq_config": {}, "eva_config": null, "runtime_config": {"ephemeral_gpu_offload": true}}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, ConfigName), []byte(scaled), 0o644))
	a, err := Open(dir, Layout{})
	require.NoError(t, err)
	require.Equal(t, 2.0, a.LoRA.Scale())
	require.NoError(t, a.Close())
	require.NoError(t, safetensors.Write(filepath.Join(dir, FileName), nil, []tensor.Source{tensor.Of("base_model.model.x.bias", counted(2))}))
	_, err = Open(dir, Layout{})
	require.ErrorContains(t, err, `tensor "base_model.model.x.bias" of F32, want an adapter's lora_A.weight or lora_B.weight, or a parameter of modules_to_save`)
	saved := `{"peft_type": "LORA", "lora_alpha": 4, "r": 2, "modules_to_save": ["mlp"], "ensure_weight_tying": true}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, ConfigName), []byte(saved), 0o644))
	for name, want := range map[string]string{
		"model.layers.0.mlp.experts.gate_up_proj":       `modules_to_save ["mlp"] has experts saved as a whole`,
		"model.layers.0.mlp.experts.1.gate_proj.weight": `modules_to_save ["mlp"] has experts saved as a whole`,
		"model.layers.0.mlp.gate.weight":                "",
		"model.embed_tokens.weight":                     `tensor "base_model.model.model.embed_tokens.weight", and adapter_config.json has ensure_weight_tying`,
		"lm_head." + nn.LoRAA:                           "and adapter_config.json has ensure_weight_tying",
	} {
		require.NoError(t, safetensors.Write(filepath.Join(dir, FileName), nil, []tensor.Source{tensor.Of(peftPrefix+name, counted(2, 4))}))
		a, err := Open(dir, Layout{})
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		require.NoError(t, a.Close())
	}
	require.NoError(t, os.Rename(filepath.Join(dir, FileName), filepath.Join(dir, "adapter_model.bin")))
	_, err = Open(dir, Layout{})
	require.ErrorContains(t, err, "adapter_model.bin is a pickle file of PyTorch, want adapter_model.safetensors; load the adapter with PEFT and save it")
}

// Rank and alpha are 8 unless the file says otherwise, the first pattern of the file that matches gives them, and experts without an
// adapter have zeros, as in PEFT.
func TestSettingsOfPEFT(t *testing.T) {
	dir := t.TempDir()
	up := "model.layers.0.mlp.experts.1.up_proj."
	for config, want := range map[string][2]float64{ // rank and scale
		`{"peft_type": "LORA"}`:                  {8, 1},
		`{"peft_type": "LORA", "r": 2}`:          {2, 4},
		`{"peft_type": "LORA", "lora_alpha": 4}`: {8, 0.5},
		`{"peft_type": "LORA", "r": 2, "alpha_pattern": {"up_proj": 6, "layers.0.mlp.experts.1.up_proj": 10}}`:                          {2, 3},
		`{"peft_type": "LORA", "r": 2, "alpha_pattern": {"layers.0.mlp.experts.1.up_proj": 10, "up_proj": 6}}`:                          {2, 5},
		`{"peft_type": "LORA", "r": 8, "rank_pattern": {"q_proj": 5, "experts.*": 2, "up_proj": 4}, "alpha_pattern": {"z": 1, "a": 2}}`: {2, 4},
		`{"peft_type": "LORA", "r": 2, "rank_pattern": null, "alpha_pattern": {}}`:                                                      {2, 4},
	} {
		rank := int(want[0])
		require.NoError(t, os.WriteFile(filepath.Join(dir, ConfigName), []byte(config), 0o644))
		require.NoError(t, safetensors.Write(filepath.Join(dir, FileName), nil, []tensor.Source{
			tensor.Of(peftPrefix+up+nn.LoRAA, counted(rank, 4)), tensor.Of(peftPrefix+up+nn.LoRAB, counted(5, rank))}))
		a, err := Open(dir, Layout{})
		require.NoError(t, err, config)
		require.Equal(t, rank, a.LoRA.Rank, config)
		all, err := a.Arrays([]nn.Adapter{{Name: "model.layers.0.mlp.experts.*.up_proj", Experts: 3, In: 4, Out: 5}})
		require.NoError(t, err)
		x, y := all["model.layers.0.mlp.experts.*.up_proj."+nn.LoRAA], all["model.layers.0.mlp.experts.*.up_proj."+nn.LoRAB]
		zero := array.New(graph.T(graph.F32, 1, rank, 4))
		require.True(t, array.Equal(zero, x.Rows(0, 1)) && array.Equal(zero, x.Rows(2, 3)), config)
		require.True(t, array.Equal(counted(rank, 4).Reshape(1, rank, 4), x.Rows(1, 2)), config)
		require.InDelta(t, want[1]*5, a.LoRA.Scale()*float64(array.Data[float32](y.Rows(1, 2))[0]), 1e-6, config)
		require.NoError(t, a.Close())
	}
}
