package peft_test

import (
	"fmt"
	"os"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
)

// An adapter of one matrix is written and opened.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "adapter")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	name := "model.layers.0.self_attn.q_proj"
	lora := nn.LoRA{Rank: 2, Alpha: 4, Targets: []string{"q_proj"}}
	err = peft.Write(dir, peft.Adapter{LoRA: lora, Base: "a model"}, []nn.Adapter{{Name: name, In: 8, Out: 8}}, map[string]array.Array{
		name + "." + nn.LoRAA: array.New(graph.T(graph.F32, 2, 8)),
		name + "." + nn.LoRAB: array.New(graph.T(graph.F32, 8, 2)),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := peft.Open(dir, peft.Layout{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()
	fmt.Println(a.LoRA.Rank, a.LoRA.Scale(), a.LoRA.Targets)
	// Output: 2 2 [model.layers.0.self_attn.q_proj]
}
