// Command layer is one expert-parallel layer: the model as a program, and the plan for two ranks.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

func main() {
	ctx := context.Background()
	p, err := graph.Trace("moe", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.F32, 8, 4)           // 8 tokens of 4 columns
		router := t.Input("router", graph.F32, 4, 4) // 4 experts
		w := t.Input("w", graph.F32, 4, 4, 4)        // one matrix per expert

		// The router chooses two experts per token.
		weights, experts, _ := primitives.Route(primitives.RouteOp{TopK: 2, Renormalize: true}, primitives.MatMul(x, router), nil)
		// Who sends which token where.
		r := primitives.Prepare(primitives.PrepareOp{Experts: 4}, experts)
		// Tokens travel to their experts.
		rows, rowWeights := primitives.DispatchWeighted(r, x, weights)
		// Each expert multiplies its rows, times the router's weights.
		y := primitives.GroupedMatMul(r, rows, w)
		y = primitives.Mul(y, primitives.BroadcastInDim(rowWeights, y.Type.Shape, 0))
		// Rows return, and are added up per token.
		return []*graph.Value{primitives.Combine(r, y).Named("out")}
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p)

	mesh, _ := sharding.ParseMesh("ep=2")
	plan, err := gomoe.Compile(ctx, p, gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{
		"x": sharding.Split("ep"), "w": sharding.Split("ep"),
	}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan)
}
