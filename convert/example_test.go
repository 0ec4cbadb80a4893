package convert_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/convert"
	"github.com/gomoe/gomoe/graph"
)

func ExampleModel() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	// A folder as Hugging Face has them becomes one in MLX's layout, with numbers of 16 bits.
	out := filepath.Join(dir, "mixtral")
	o := convert.Options{Layout: convert.MLX, Type: graph.BF16}
	if err := convert.Model(context.Background(), out, "../models/testdata/mixtral", o); err != nil {
		fmt.Println(err)
		return
	}
	model, err := checkpoint.Open(out)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer model.Close()
	t, err := model.Tensor("model.layers.1.block_sparse_moe.switch_mlp.up_proj.weight")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Type)
	// Output: bf16[6,24,16]
}
