package finetune

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/convert"
	"github.com/gomoe/gomoe/models"
)

// portable changes a configuration to what llama.cpp computes, too.
func portable(config map[string]any) {
	plainPositions(config)
	if config["model_type"] == "gpt_oss" {
		config["swiglu_limit"] = 7
	}
}

// A checkpoint of a run is a model with the losses that the run has ended with, whatever files it began with, and one of adapters is
// an adapter.
func TestCheckpointIsModel(t *testing.T) {
	for _, name := range []string{"mixtral", "gpt_oss", "deepseek_v3", "llama"} {
		for _, gguf := range []bool{false, true} {
			model := folderOf(t, name)
			if gguf {
				configure(t, model, portable)
				file := filepath.Join(t.TempDir(), "model.gguf")
				require.NoError(t, convert.Model(context.Background(), file, model, convert.Options{Layout: convert.GGUF}))
				model = file
			}
			for _, all := range []bool{true, false} {
				o, more := options(t), options(t)
				o.All, o.Rate, o.Steps, o.Saves.Every = all, 0.01, 3, 3
				r := run(t, model, o)
				more.Data, more.HeldOut, more.Steps = o.Data, o.HeldOut, 1
				saved := filepath.Join(o.Out, "checkpoints", "step-00000003")
				of := model
				if all {
					of = saved
				} else {
					if mlx := filepath.Join(o.Out, "mlx"); name != "deepseek_v3" { // mlx-lm has no kv_b_proj
						other := options(t)
						other.Data, other.HeldOut, other.Steps, other.From = o.Data, o.HeldOut, 1, mlx
						require.InDelta(t, r.After, run(t, model, other).Before, 2e-6, "%s gguf=%v from mlx", name, gguf)
					}
					more.From = saved
					_, err := checkpoint.Open(saved)
					require.ErrorContains(t, err, "this is a checkpoint of an adapter; give the model that it was trained on, and -adapter "+saved)
					made, err := checkpoint.Open(o.Out)
					require.NoError(t, err)
					_, err = models.Open(made)
					require.ErrorContains(t, err, "this is an adapter; give the model that it was trained on, and -adapter "+o.Out)
					require.NoError(t, made.Close())
				}
				require.NotEqual(t, r.Before, r.After)
				require.InDelta(t, r.After, run(t, of, more).Before, 2e-6, "%s gguf=%v all=%v", name, gguf, all)
			}
		}
	}
}
