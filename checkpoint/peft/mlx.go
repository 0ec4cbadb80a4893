package peft

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/nn"
)

// mixtral maps names of Mixtral's expert matrices to mlx-lm's.
func mixtral() map[string]string {
	return map[string]string{"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}
}

// plainMLX returns the name of a matrix, given its name in mlx-lm's files.
func plainMLX(module string) string {
	if before, matrix, ok := strings.Cut(module, ".switch_mlp."); ok {
		if strings.HasSuffix(before, ".block_sparse_moe") {
			for own, other := range mixtral() {
				if other == matrix {
					matrix = own
					break
				}
			}
		}
		return before + ".experts.*." + matrix
	}
	if before, matrix, ok := strings.Cut(module, ".mlp.experts."); ok { // gpt-oss's
		return before + ".mlp.experts.*." + matrix
	}
	return module
}

// mlxModule returns mlx-lm's name of a matrix; experts is the name of the module holding the experts' matrices.
func mlxModule(name, experts string) string {
	before, matrix, ok := strings.Cut(name, ".experts.*.")
	if !ok {
		return name
	}
	if other, ok := mixtral()[matrix]; ok && strings.HasSuffix(before, ".block_sparse_moe") {
		matrix = other
	}
	return before + "." + experts + "." + matrix
}

// WriteMLX writes an adapter to a folder in mlx-lm's format; the arguments are as for Write. experts is mlx-lm's
// name of the module holding the matrices of all experts: experts for gpt-oss, and switch_mlp for others.
func WriteMLX(folder string, a Adapter, adapters []nn.Adapter, arrays map[string]array.Array, experts string) error {
	if err := writeMLX(folder, a, adapters, arrays, experts); err != nil {
		return fmt.Errorf("peft: %w", err)
	}
	return nil
}

func writeMLX(folder string, a Adapter, adapters []nn.Adapter, arrays map[string]array.Array, experts string) error {
	if err := checked(a, adapters, arrays); err != nil {
		return err
	}
	var tensors []tensor.Source
	for _, m := range adapters {
		for part, end := range map[string]string{nn.LoRAA: ".lora_a", nn.LoRAB: ".lora_b"} {
			x := arrays[m.Name+"."+part]
			if m.Experts == 0 {
				x = x.Transposed()
			}
			tensors = append(tensors, tensor.Of(mlxModule(m.Name, experts)+end, x))
		}
	}
	slices.SortFunc(tensors, func(a, b tensor.Source) int { return strings.Compare(a.Name, b.Name) })
	keys := []string{}
	for _, m := range adapters {
		keys = append(keys, mlxModule(m.Name, experts))
	}
	slices.Sort(keys)
	text, err := json.MarshalIndent(map[string]any{
		"fine_tune_type": "lora", "model": a.Base,
		"num_layers":      0, // keys are full names
		"lora_parameters": map[string]any{"rank": a.LoRA.Rank, "scale": a.LoRA.Scale(), "dropout": a.LoRA.Dropout, "keys": keys},
	}, "", "  ")
	if err != nil {
		return err
	}
	return writeFiles(folder, MLXName, tensors, map[string][]byte{ConfigName: append(text, '\n')})
}
