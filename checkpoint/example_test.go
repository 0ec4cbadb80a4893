package checkpoint_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
)

// A model is written, and opened again.
func Example() {
	folder, err := os.MkdirTemp("", "model")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	norm, err := array.Of([]float32{1, 0.5, 2}, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	path := filepath.Join(folder, safetensors.FileName)
	if err := safetensors.Write(path, nil, []tensor.Source{tensor.Of("model.norm.weight", norm)}); err != nil {
		fmt.Println(err)
		return
	}
	if err := show(folder); err != nil {
		fmt.Println(err)
	}
	// Output: f32[3] [1 0.5 2]
}

func show(folder string) error {
	model, err := checkpoint.Open(folder)
	if err != nil {
		return err
	}
	defer model.Close() // arrays must not be used afterwards
	t, err := model.Tensor("model.norm.weight")
	if err != nil {
		return err
	}
	norm, err := t.Array()
	if err != nil {
		return err
	}
	fmt.Println(norm)
	return nil
}
