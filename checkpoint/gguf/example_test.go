package gguf_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/gguf"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
)

// A file has keys, which describe the model, and tensors, whose elements may lie in blocks.
func Example() {
	folder, err := os.MkdirTemp("", "gguf")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "model.gguf")
	meta := []gguf.Meta{{Key: "general.architecture", Value: "olmoe"}, {Key: "olmoe.block_count", Value: uint32(16)}}
	experts := tensor.Of("blk.0.ffn_up_exps.weight", array.New(graph.T(graph.Q4_K, 8, 4, 256)))
	if err := gguf.Write(path, meta, []tensor.Source{experts}); err != nil {
		fmt.Println(err)
		return
	}
	f, err := gguf.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	blocks, _ := f.Int("olmoe.block_count")
	fmt.Println(blocks, "blocks;", f.Tensors[0].Name, f.Tensors[0].Type, len(f.Tensors[0].Mem), "bytes")
	// Output: 16 blocks; blk.0.ffn_up_exps.weight q4_k[8,4,256] 4608 bytes
}
