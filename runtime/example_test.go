package runtime_test

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// A session keeps arrays on their ranks from step to step: a result of one step is an
// input of the next.
func ExampleSession() {
	if err := double(3); err != nil {
		fmt.Println(err)
	}
	// Output: [8 16 24 32]
}

func double(steps int) error {
	p, err := gomoe.Parse("double.graph", "program double(x f32[4]) {\n\ty f32[4] = add(x, x)\n\treturn y\n}\n")
	if err != nil {
		return err
	}
	mesh, err := sharding.ParseMesh("dp=2")
	if err != nil {
		return err
	}
	plan, err := gomoe.Compile(context.Background(), p, gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"x": sharding.Split("dp")}})
	if err != nil {
		return err
	}
	ranks, err := engine.Local(2, jaccl.Options{})
	if err != nil {
		return err
	}
	s, err := runtime.Open(plan, ranks, runtime.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	start, err := array.Of([]float32{1, 2, 3, 4}, 4)
	if err != nil {
		return err
	}
	x, err := s.Put("x", start)
	if err != nil {
		return err
	}
	for range steps {
		out, err := s.Run(context.Background(), map[string]*runtime.Array{"x": x})
		if err != nil {
			return err
		}
		x = out[0]
	}
	end, err := s.Get(context.Background(), x)
	fmt.Println(end.Float64s())
	return err
}
