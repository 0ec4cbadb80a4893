package pretrain_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomoe/gomoe/pretrain"
	"github.com/gomoe/gomoe/train/picture"
)

// A small Qwen3-MoE is trained for three steps on a text. What the settings do not say is that of moe_lm.
func Example() {
	dir, err := os.MkdirTemp("", "pretrain")
	check(err)
	defer os.RemoveAll(dir)
	text, settings, out := filepath.Join(dir, "text.txt"), filepath.Join(dir, "settings.json"), filepath.Join(dir, "out")
	check(os.WriteFile(text, []byte(strings.Repeat("An expert is a network. ", 40)), 0o666))
	check(os.WriteFile(settings, fmt.Appendf(nil, `{
		"model": {"model_type": "qwen3_moe", "hidden_size": 16, "num_hidden_layers": 1, "moe_intermediate_size": 8},
		"data": {"files": [%q]}, "steps": 3, "batch": 2, "length": 16
	}`, text), 0o666))
	s, err := pretrain.Read(settings)
	check(err)
	check(pretrain.Run(context.Background(), context.Background(), s, pretrain.Options{Out: out, Draw: picture.Draw}))
	files, err := os.ReadDir(out)
	check(err)
	for _, f := range files {
		fmt.Println(f.Name())
	}
	// Output:
	// config.json
	// metrics.csv
	// model.safetensors
	// tokenizer.json
	// training.png
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
