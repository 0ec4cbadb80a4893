package safetensors_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
)

// A source makes its bytes when the file has come to it.
func Example() {
	folder, err := os.MkdirTemp("", "safetensors")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, safetensors.FileName)
	half, err := array.Of([]array.Brain{0x3f80, 0x4000}, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := safetensors.Write(path, map[string]string{"format": "pt"}, []tensor.Source{tensor.Of("bias", half)}); err != nil {
		fmt.Println(err)
		return
	}
	f, err := safetensors.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	bias, err := f.Tensors[0].Array()
	fmt.Println(f.Metadata["format"], f.Tensors[0].Name, f.Tensors[0].Stored, bias, err)
	// Output: pt bias BF16 bf16[2] [1 2] <nil>
}
