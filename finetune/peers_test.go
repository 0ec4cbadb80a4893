//go:build peers

package finetune

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/convert"
	"github.com/gomoe/gomoe/evaluate"
	"github.com/gomoe/gomoe/models"
)

// mlx-lm loads the adapters of every family that it has, and its loss on a text is the one here.
func TestMLXLoads(t *testing.T) {
	python := os.Getenv("GOMOE_TEST_MLX")
	require.NotEmpty(t, python, "want a python that has mlx and mlx_lm in GOMOE_TEST_MLX")
	ids := []int32{1, 5, 7, 9, 2, 4, 8, 3, 1, 0, 6}
	for _, name := range []string{"olmoe", "mixtral", "gpt_oss", "qwen2_moe", "qwen3", "qwen3_moe", "glm4_moe", "llama", "deepseek_v2", "deepseek_v3"} {
		model := folderOf(t, name)
		configure(t, model, simplify)
		o := options(t)
		o.Rate, o.Steps = 0.02, 3
		run(t, model, o)
		c, m, _ := open(t, model)
		with, err := models.OpenAdapters(o.Out, m, c)
		require.NoError(t, err)
		r, err := evaluate.Text(context.Background(), m, c, ids, evaluate.Options{Adapters: with})
		require.NoError(t, err)
		folder := filepath.Join(t.TempDir(), "mlx")
		require.NoError(t, convert.Model(context.Background(), folder, model, convert.Options{Layout: convert.MLX}))
		out, err := exec.Command(python, "-c", script, folder, filepath.Join(o.Out, "mlx")).CombinedOutput()
		require.NoError(t, err, "%s", out)
		lines := strings.Fields(string(out))
		got, plain := number(t, lines[len(lines)-2]), number(t, lines[len(lines)-1])
		without, err := evaluate.Text(context.Background(), m, c, ids, evaluate.Options{})
		require.NoError(t, err)
		t.Logf("%s: loss %.5f and %.5f without the adapter, mlx-lm's %.5f and %.5f", name, r.Loss, without.Loss, got, plain)
		require.InDelta(t, r.Loss, got, 1e-4, name)
		require.Greater(t, math.Abs(plain-got), 5e-3, name)
	}
}

const script = `
import sys
from pathlib import Path
import mlx.core as mx, mlx.nn as nn
from mlx_lm.utils import load_model
from mlx_lm.tuner.utils import load_adapters
ids = mx.array([[1, 5, 7, 9, 2, 4, 8, 3, 1, 0, 6]])
losses = []
for adapter in (sys.argv[2], None):
    model, _ = load_model(Path(sys.argv[1]))
    if adapter:
        model = load_adapters(model, adapter)
    model.eval()
    losses.append(nn.losses.cross_entropy(model(ids[:, :-1]).astype(mx.float32), ids[:, 1:], reduction="mean").item())
print(*losses)
`

func number(t *testing.T, text string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return x
}

// simplify changes settings that mlx-lm does not compute.
func simplify(config map[string]any) {
	portable(config)
	delete(config, "clip_qkv")
	config["num_nextn_predict_layers"] = 0
	switch config["model_type"] {
	case "deepseek_v3":
		config["n_group"], config["topk_group"] = 1, 1 // mlx-lm may choose experts of other groups
		fallthrough
	case "deepseek_v2":
		config["rope_parameters"] = map[string]any{"rope_type": "yarn", "rope_theta": 1000, "factor": 2, "mscale": 0.7, "mscale_all_dim": 0.7, "original_max_position_embeddings": 64}
	}
}

// PEFT loads the adapters of every family with transformers, with all of their networks: its loss is the one here.
func TestPEFTLoads(t *testing.T) {
	python := os.Getenv("GOMOE_TEST_PEFT")
	require.NotEmpty(t, python, "want a python that has peft and transformers 5 in GOMOE_TEST_PEFT")
	for _, name := range []string{"deepseek_v2", "deepseek_v3", "glm4_moe", "gpt_oss", "llama", "mixtral", "olmoe", "qwen2_moe", "qwen3", "qwen3_moe"} {
		for _, targets := range [][]string{nil, {"q_proj", "up_proj", "w3"}} {
			model := folderOf(t, name)
			o := options(t)
			o.Rate, o.Steps, o.LoRA.Dropout = 0.01, 3, 0.1
			for _, target := range targets {
				if (target == "up_proj") == (name != "mixtral") || target == "q_proj" && name != "deepseek_v3" {
					o.LoRA.Targets = append(o.LoRA.Targets, target)
				}
			}
			if name != "mixtral" {
				o.LoRA.Targets = slices.DeleteFunc(o.LoRA.Targets, func(t string) bool { return t == "w3" })
			}
			run(t, model, o)
			c, m, _ := open(t, model)
			ids := []int32{1, 5, 7, 9, 2, 4, 8, 3, 1, 0, 6}
			with, err := models.OpenAdapters(o.Out, m, c)
			require.NoError(t, err)
			r, err := evaluate.Text(context.Background(), m, c, ids, evaluate.Options{Adapters: with})
			require.NoError(t, err)
			out, err := exec.Command(python, "-c", peftScript, model, o.Out).CombinedOutput()
			require.NoError(t, err, "%s", out)
			lines := strings.Fields(string(out))
			got, plain := number(t, lines[len(lines)-2]), number(t, lines[len(lines)-1])
			t.Logf("%s %v: loss %.6f, PEFT's %.6f and %.6f without the adapter", name, targets, r.Loss, got, plain)
			require.InDelta(t, r.Loss, got, 5e-6, "%s %v", name, targets)
			require.Greater(t, math.Abs(plain-got), 5e-5, name)
		}
	}
}

const peftScript = `
import sys
import peft, torch, transformers
ids = torch.tensor([[1, 5, 7, 9, 2, 4, 8, 3, 1, 0, 6]])
losses = []
for adapter in (sys.argv[2], None):
    model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32, attn_implementation="eager")
    if adapter:
        model = peft.PeftModel.from_pretrained(model, adapter)
    with torch.no_grad():
        logits = model.eval()(ids).logits[0]
    losses.append(torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:]).item())
print()
print(*losses)
`
