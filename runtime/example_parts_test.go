package runtime_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// Weights come from a file of which every rank reads its own rows, and move from a job on
// two ranks to a job on four, which splits the columns.
func ExampleSession_Reshard() {
	double := func(mesh, place string) *gomoe.Job {
		p, err := graph.Trace("double", func(t *graph.Tracer) []*graph.Value {
			w := t.Input("w", graph.F32, 4, 8)
			return []*graph.Value{primitives.Add(w, w)}
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
	rows, columns := double("dp=2", "dp"), double("tp=4", "_,tp")
	defer rows.Close()
	defer columns.Close()

	file := []byte("sixteen bytes, w")
	for i := range 32 {
		var err error
		file, err = binary.Append(file, binary.NativeEndian, float32(i))
		check(err)
	}
	w, err := rows.PutParts("w", runtime.ReadAt(bytes.NewReader(file), 16))
	check(err)
	moved, err := columns.Reshard(context.Background(), "w", w)
	check(err)
	for _, a := range []*runtime.Array{w, moved} {
		parts, err := a.Parts()
		check(err)
		for _, p := range parts {
			fmt.Println(p)
		}
	}
	got, err := moved.Get()
	check(err)
	fmt.Println(array.Data[float32](got)[29:])
	// Output:
	// rank 0, f32[0:2,0:8] of f32[4,8]
	// rank 1, f32[2:4,0:8] of f32[4,8]
	// rank 0, f32[0:4,0:2] of f32[4,8]
	// rank 1, f32[0:4,2:4] of f32[4,8]
	// rank 2, f32[0:4,4:6] of f32[4,8]
	// rank 3, f32[0:4,6:8] of f32[4,8]
	// [29 30 31]
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
