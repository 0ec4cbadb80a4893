package finetune

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/evaluate"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
)

// Adapters that PEFT has saved for models of transformers 5 have PEFT's loss, or are refused by the name of what gomoe does not compute.
// A run that begins with one begins with this loss.
func TestAdaptersOfPEFT(t *testing.T) {
	text, err := os.ReadFile("testdata/adapters.json")
	require.NoError(t, err)
	var want struct {
		IDs      []int32
		Adapters []struct {
			Case, Model string
			Base, Loss  float64
		}
	}
	require.NoError(t, json.Unmarshal(text, &want))
	require.NotEmpty(t, want.Adapters)
	refused := map[string]string{
		"pissa":      `init_lora_weights is "pissa", with which PEFT changes the base weights`,
		"table_tied": "the adapter changes model.embed_tokens.weight as a table alone",
	}
	for _, x := range want.Adapters {
		t.Run(x.Case, func(t *testing.T) {
			folder := filepath.Join("testdata/adapters", x.Case)
			c, m, tok := open(t, folderOf(t, x.Model))
			with, err := models.OpenAdapters(folder, m, c)
			if why, ok := refused[x.Case]; ok {
				require.ErrorContains(t, err, why)
				return
			}
			require.NoError(t, err)
			r, err := evaluate.Text(context.Background(), m, c, want.IDs, evaluate.Options{Adapters: with})
			require.NoError(t, err)
			require.InDelta(t, x.Loss, r.Loss, 5e-6)
			require.Greater(t, math.Abs(x.Loss-x.Base), 1e-3)
			plain, err := evaluate.Text(context.Background(), m, c, want.IDs, evaluate.Options{})
			require.NoError(t, err)
			require.InDelta(t, x.Base, plain.Loss, 5e-6)
			o := options(t)
			o.Tokenizer, o.From, o.Steps, o.Rate = tok, folder, 1, 1e-9
			_, err = Run(context.Background(), context.Background(), m, c, o)
			if len(with.Changed) > 0 {
				require.Regexp(t, "want adapters of matrices alone to begin with|the adapter .* does not fit the model: .*kv_b_proj\" is no matrix that can have an adapter", err)
				return
			}
			require.NoError(t, err)
			again, err := models.OpenAdapters(o.Out, m, c)
			require.NoError(t, err)
			r, err = evaluate.Text(context.Background(), m, c, want.IDs, evaluate.Options{Adapters: again})
			require.NoError(t, err)
			require.InDelta(t, x.Loss, r.Loss, 5e-5)
		})
	}
}

// PEFT takes a target that is called like an expert's matrix for that of all experts, and drops the layers with that name. A written
// adapter names these as parameters, and none of them as a module.
func TestNamesForPEFT(t *testing.T) {
	for name, want := range map[string][]string{
		"deepseek_v3": {"model.layers.0.mlp.down_proj.weight", "model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.experts.down_proj", "model.layers.1.mlp.experts.gate_up_proj",
			"model.layers.1.mlp.shared_experts.down_proj.weight", "model.layers.1.mlp.shared_experts.gate_proj.weight", "model.layers.1.mlp.shared_experts.up_proj.weight"},
		"mixtral": {"model.layers.0.mlp.experts.down_proj", "model.layers.0.mlp.experts.gate_up_proj", "model.layers.1.mlp.experts.down_proj", "model.layers.1.mlp.experts.gate_up_proj"},
		"llama":   nil,
	} {
		c, m, _ := open(t, folderOf(t, name))
		l := nn.LoRA{Rank: 2, Alpha: 6}
		list, err := adaptersOf(m, c, &l)
		require.NoError(t, err)
		files, err := peft.Describe(peft.Adapter{LoRA: l, Layout: m.Family.Adapters}, list)
		require.NoError(t, err)
		var got struct {
			Modules    []string           `json:"target_modules"`
			Parameters []string           `json:"target_parameters"`
			Ranks      map[string]int     `json:"rank_pattern"`
			Alphas     map[string]float64 `json:"alpha_pattern"`
		}
		require.NoError(t, json.Unmarshal(files[peft.ConfigName], &got))
		require.Equal(t, want, got.Parameters)
		if name == "mixtral" {
			require.Equal(t, map[string]int{`model\.layers\.0\.mlp\.experts\.gate_up_proj`: 4, `model\.layers\.1\.mlp\.experts\.gate_up_proj`: 4}, got.Ranks)
			require.Equal(t, map[string]float64{`model\.layers\.0\.mlp\.experts\.gate_up_proj`: 12, `model\.layers\.1\.mlp\.experts\.gate_up_proj`: 12}, got.Alphas)
		}
		if name != "llama" {
			for _, module := range got.Modules {
				require.NotRegexp(t, `\.(gate|up|down|gate_up)_proj$`, module)
			}
		}
	}
}

// Adapters that are written for all experts together are read as they were, also where one of gate and up has none.
func TestFusedAdapters(t *testing.T) {
	for _, name := range []string{"mixtral", "gpt_oss", "qwen2_moe"} {
		c, m, _ := open(t, folderOf(t, name))
		for _, targets := range [][]string{nil, {"experts.*.up_proj", "experts.*.w3"}, {"experts.*.gate_proj", "experts.*.down_proj", "experts.*.w1", "experts.*.w2"}} {
			l := nn.LoRA{Rank: 2, Alpha: 3}
			for _, target := range targets {
				if (target[len(target)-2] == 'w') == (name == "mixtral") {
					l.Targets = append(l.Targets, target)
				}
			}
			list, err := adaptersOf(m, c, &l)
			require.NoError(t, err)
			arrays := map[string]array.Array{}
			for _, a := range list {
				for part, shape := range map[string][]int{nn.LoRAA: {2, a.In}, nn.LoRAB: {a.Out, 2}} {
					if a.Experts > 0 {
						shape = append([]int{a.Experts}, shape...)
					}
					x := array.New(c32(shape))
					for i := range array.Data[float32](x) {
						array.Data[float32](x)[i] = float32(len(arrays)+1) + float32(i)/1024
					}
					arrays[a.Name+"."+part] = x
				}
			}
			folder := t.TempDir()
			require.NoError(t, peft.Write(folder, peft.Adapter{LoRA: l, Layout: m.Family.Adapters}, list, arrays))
			a, err := peft.Open(folder, m.Family.Adapters)
			require.NoError(t, err)
			back, err := models.AdaptersOf(m, c, a.LoRA)
			require.NoError(t, err)
			require.Equal(t, list, back, "%s %v", name, targets)
			got, err := a.Arrays(back)
			require.NoError(t, err)
			with, err := models.OpenAdapters(folder, m, c)
			require.NoError(t, err)
			require.Empty(t, with.Changed)
			for _, x := range list {
				product := func(all map[string]array.Array, l nn.LoRA) array.Array {
					return timesOf(all[x.Name+"."+nn.LoRAA], all[x.Name+"."+nn.LoRAB], x, l)
				}
				off, _ := array.MaxDiff(product(arrays, l), product(got, a.LoRA))
				require.Less(t, off, 1e-3, x.Name)
			}
			require.NoError(t, a.Close())
		}
	}
}

// timesOf returns scale·B·A of a matrix, or of all experts'.
func timesOf(a, b array.Array, m nn.Adapter, l nn.LoRA) array.Array {
	y := array.New(c32([]int{max(1, m.Experts), m.Out, m.In}))
	as, bs, to := array.Data[float32](a), array.Data[float32](b), array.Data[float32](y)
	for e := range max(1, m.Experts) {
		for o := range m.Out {
			for r := range l.Rank {
				for i := range m.In {
					to[(e*m.Out+o)*m.In+i] += float32(l.Scale()) * bs[(e*m.Out+o)*l.Rank+r] * as[(e*l.Rank+r)*m.In+i]
				}
			}
		}
	}
	return y
}

func c32(shape []int) graph.Type { return graph.T(graph.F32, shape...) }

// A target that the model lacks is an error with the model's own matrices.
func TestTargetsOfFamilies(t *testing.T) {
	for name, want := range map[string]string{
		"mixtral": "mixtral has q_proj, k_proj, v_proj, o_proj, gate, experts.*.w1, experts.*.w3, experts.*.w2, lm_head",
		"llama":   "llama has q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, lm_head",
	} {
		c, m, _ := open(t, folderOf(t, name))
		_, err := models.AdaptersOf(m, c, nn.LoRA{Rank: 1, Targets: []string{"experts.*.nothing"}})
		require.ErrorContains(t, err, `target "experts.*.nothing" is no matrix that can have an adapter; `+want)
	}
}
