package parts_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/train/snapshot"
)

// Two experts of a run are two tensors of its model, which lie where the run has written them.
func ExampleSet_Tensors() {
	folder, err := os.MkdirTemp("", "run")
	check(err)
	defer os.RemoveAll(folder)
	p, err := graph.Trace("model", func(t *graph.Tracer) []*graph.Value {
		return []*graph.Value{primitives.ReduceSum(t.Input("up", graph.F32, 2, 3, 4))}
	})
	check(err)
	job, err := gomoe.Open(context.Background(), p, gomoe.Config{})
	check(err)
	defer job.Close()
	up, err := job.Put("up", array.New(graph.T(graph.F32, 2, 3, 4)))
	check(err)
	model := &snapshot.Model{Tensors: []parts.Tensor{{Array: "up", Name: "experts.*.up.weight"}}}
	check(snapshot.Folder{Path: folder}.Save(context.Background(), snapshot.State{Step: 7, Model: model, Arrays: map[string]*runtime.Array{"up": up}}))

	s, err := parts.Open(filepath.Join(folder, "step-00000007"))
	check(err)
	defer s.Close()
	tensors, err := s.Tensors()
	check(err)
	for _, t := range tensors {
		fmt.Println(t.Name, t.Type, filepath.Base(t.File))
	}
	// Output:
	// experts.0.up.weight f32[3,4] part-00001-of-00001.safetensors
	// experts.1.up.weight f32[3,4] part-00001-of-00001.safetensors
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
