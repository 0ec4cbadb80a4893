package lowering_test

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// A placed program becomes the plan that both ranks run.
func ExampleLower() {
	p, err := graph.Trace("line", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.F32, 8)
		squares := toy.Square(toy.Scale(0.5, x).Named("half")).Named("squares")
		return []*graph.Value{toy.Square(toy.Sum(squares).Named("sum")).Named("y")}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mesh, err := sharding.ParseMesh("tp=2")
	if err != nil {
		fmt.Println(err)
		return
	}
	placed, err := sharding.Propagate(context.Background(), p, mesh, map[string]sharding.Spec{"x": sharding.Split("tp")})
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := lowering.Lower(context.Background(), placed, lowering.Options{Fuse: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(plan)
	// Output:
	// plan line mesh "tp=2" ranks=2 arena=64
	// 	in  x            f32[8@tp] b0@in
	// 	  0   b2@0 f32[4] = fused(scale, square)(b0@in) # example_test.go:17: squares
	// 	    . b1 f32[4] = scale(b0@in) by=0.5 # example_test.go:17: half
	// 	    . b2@0 f32[4] = square(b1) # example_test.go:17: squares
	// 	  1   b3@out f32[] = sum(b2@0) # example_test.go:18: sum
	// 	  2 ⇄ b4@out f32[] = all_sum(b3@out) over tp #0 f32 4 bytes # example_test.go:18: sum
	// 	  3   b5@out f32[] = square(b4@out) # example_test.go:18: y
	// 	out y            f32[] b5@out
}
