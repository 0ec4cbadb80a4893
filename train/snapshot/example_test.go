package snapshot_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train/snapshot"
)

// A run on two ranks saves its weight, and another on four ranks goes on from there.
func ExampleFolder() {
	dir, err := os.MkdirTemp("", "run")
	check(err)
	defer os.RemoveAll(dir)
	folder := snapshot.Folder{Path: filepath.Join(dir, "checkpoints")}

	two := step("dp=2", "dp")
	defer two.Close()
	w, err := two.Put("w", array.New(graph.T(graph.F32, 4, 2)))
	check(err)
	out, err := two.Run(context.Background(), map[string]*runtime.Array{"w": w})
	check(err)
	check(folder.Save(context.Background(), snapshot.State{Step: 1, Facts: map[string]string{"text": "a.txt"}, Arrays: map[string]*runtime.Array{"w": out[0]}}))

	saved, err := folder.Latest(context.Background())
	check(err)
	defer saved.Close()
	four := step("tp=2,ep=2", "ep,tp")
	defer four.Close()
	w, err = four.PutParts("w", saved.Fill("w")) // every rank reads its own part
	check(err)
	parts, err := w.Parts()
	check(err)
	fmt.Println("after step", saved.Step, "on", saved.Facts["text"])
	fmt.Println(parts[3], array.Data[float32](parts[3].Array))
	// Output:
	// after step 1 on a.txt
	// rank 3, f32[2:4,1:2] of f32[4,2] [1 1]
}

// step opens a program that adds 1 to a weight, which is placed on a mesh.
func step(mesh, place string) *gomoe.Job {
	p, err := graph.Trace("step", func(t *graph.Tracer) []*graph.Value {
		w := t.Input("w", graph.F32, 4, 2)
		return []*graph.Value{primitives.Add(w, primitives.Full(t, 1, graph.F32, 4, 2))}
	})
	check(err)
	m, err := sharding.ParseMesh(mesh)
	check(err)
	spec, err := sharding.ParseSpec(place)
	check(err)
	job, err := gomoe.Open(context.Background(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"w": spec}})
	check(err)
	return job
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
