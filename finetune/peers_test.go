//go:build peers

package finetune

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
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
	for _, name := range []string{"olmoe", "mixtral", "gpt_oss", "qwen3_moe", "llama"} {
		model := folderOf(t, name)
		configure(t, model, simplify)
		o := options(t)
		o.Rate, o.Steps = 0.01, 3
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

// simplify changes what a configuration says and mlx-lm does not read, or not there.
func simplify(config map[string]any) {
	delete(config, "clip_qkv")
	switch config["model_type"] {
	case "gpt_oss":
		config["swiglu_limit"] = 7.0
	case "qwen3_moe":
		config["num_experts"] = config["num_local_experts"]
		delete(config, "num_local_experts")
		fallthrough
	default:
		delete(config, "sliding_window")
	}
	config["rope_theta"] = 1000.0
	config["rope_parameters"] = map[string]any{"rope_type": "default", "rope_theta": 1000.0}
}
