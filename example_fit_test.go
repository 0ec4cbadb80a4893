package gomoe_test

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// expertsInBlocks is the gradient of a layer of experts, 1024 tokens on each of 16 ranks, of
// which at most `rows` rows arrive on a rank at once.
func expertsInBlocks(rows int) (*graph.Program, error) {
	const tokens, hidden, width, experts, choices = 16 * 1024, 512, 256, 32, 4
	return graph.Trace("layer", func(t *graph.Tracer) []*graph.Value {
		x, logits := t.Input("x", graph.BF16, tokens, hidden), t.Input("logits", graph.F32, tokens, experts)
		up, down := t.Input("up", graph.BF16, experts, hidden, width), t.Input("down", graph.BF16, experts, width, hidden)
		_, ids, _ := primitives.Route(primitives.RouteOp{TopK: choices}, logits, nil)
		r := primitives.Prepare(primitives.PrepareOp{Experts: experts}, ids)
		y := primitives.InBlocks(rows, r, []*graph.Value{x}, func(r primitives.Prepared, block []*graph.Value) *graph.Value {
			h := primitives.SiLU(primitives.GroupedMatMul(r, primitives.Dispatch(r, block[0]), up))
			return primitives.Combine(r, primitives.GroupedMatMul(r, h, down))
		})
		return vjp.Gradients(primitives.ReduceSumUnordered(primitives.Square(y)), x, up, down)
	})
}

// A layer that takes no more than a size that the user gives.
func ExampleFit() {
	mesh, err := sharding.ParseMesh("ep=16")
	if err != nil {
		fmt.Println(err)
		return
	}
	split := sharding.Split("ep")
	cfg := gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"x": split, "logits": split, "up": split, "down": split}}
	for _, mib := range []int64{400, 40, 1} {
		p, rows, err := gomoe.Fit(context.Background(), mib<<20, 16*1024, cfg, expertsInBlocks)
		if err != nil {
			fmt.Printf("%d MiB: no blocks are small enough\n", mib)
			continue
		}
		fmt.Printf("%d MiB: program %s with blocks of %d rows\n", mib, p.Name, rows)
	}
	// Output:
	// 400 MiB: program layer with blocks of 16384 rows
	// 40 MiB: program layer with blocks of 4096 rows
	// 1 MiB: no blocks are small enough
}
