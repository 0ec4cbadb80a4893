package gomoe_test

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/sharding"
)

// A program in its text form, run on two ranks of this process.
func Example() {
	p, err := gomoe.Parse("square.graph", `
program squares(x f32[4]) {
	y f32[4] = square(x)
	sum f32[] = reduce_sum(y) axes=[0]
	return y, sum
}
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	x, err := array.Of([]float32{1, 2, 3, 4}, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	mesh, err := sharding.ParseMesh("dp=2")
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"x": sharding.Split("dp")}}
	out, err := gomoe.Run(context.Background(), p, cfg, map[string]array.Array{"x": x})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out[0].Float64s(), out[1].Float64s())
	// Output: [1 4 9 16] [30]
}

// A mistake is found before anything runs, and the error names the line.
func ExampleParse() {
	_, err := gomoe.Parse("wrong.graph", `program wrong(x f32[4], y f32[3]) {
	z f32[4] = add(x, y)
	return z
}
`)
	fmt.Println(err)
	// Output:
	// wrong.graph:2: add(f32[4], f32[3]): shapes of f32[4] and f32[3] differ; broadcast one with broadcast_in_dim
}
