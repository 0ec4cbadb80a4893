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

		weights, experts, _ := primitives.Route(primitives.RouteOp{TopK: 2, Renormalize: true}, primitives.MatMul(x, router), nil) // two experts per token
		r := primitives.Prepare(primitives.PrepareOp{Experts: 4}, experts)                                                         // who sends which token where
		rows, rowWeights := primitives.DispatchWeighted(r, x, weights)                                                             // tokens travel to their experts
		y := primitives.GroupedMatMul(r, rows, w)                                                                                  // each expert multiplies its rows
		y = primitives.Mul(y, primitives.BroadcastInDim(rowWeights, y.Type.Shape, 0))                                              // times the router's weights
		return []*graph.Value{primitives.Combine(r, y).Named("out")}                                                               // and return, added up per token
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
