package vjp_test

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// The gradient of four layers keeps what lies between the layers, and computes what lies
// inside of them a second time. Equations that compute the same numbers are not merged.
func ExampleRemat() {
	p, err := graph.Trace("net", func(t *graph.Tracer) []*graph.Value {
		layer := func(_ *graph.Tracer, a []*graph.Value) []*graph.Value {
			x, up, down := a[0], a[1], a[2]
			h := primitives.SiLU(primitives.MatMul(x, up))
			return []*graph.Value{primitives.Add(x, primitives.MatMul(h, down))}
		}
		x := t.Input("x", graph.F32, 512, 64)
		var weights []*graph.Value
		for l := range 4 {
			up := t.Input(fmt.Sprintf("up%d", l), graph.F32, 64, 256)
			down := t.Input(fmt.Sprintf("down%d", l), graph.F32, 256, 64)
			weights = append(weights, up, down)
			x = vjp.Remat("layer", layer, x, up, down)[0]
		}
		loss := primitives.ReduceSum(primitives.Square(x))
		return append([]*graph.Value{loss}, vjp.Gradients(loss, weights...)...)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := gomoe.Compile(context.Background(), p, gomoe.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plan.Arena>>10, "KiB of temporaries")
	// Output: 2048 KiB of temporaries
}
