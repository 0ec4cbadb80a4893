package primitives_test

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// An expert-parallel layer: every token goes to the best two of four experts.
func Example() {
	p, err := graph.Trace("moe", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.F32, 8, 4)
		router := t.Input("router", graph.F32, 4, 4)
		w := t.Input("w", graph.F32, 4, 4, 4)

		weights, experts, _ := primitives.Route(primitives.RouteOp{TopK: 2, Renormalize: true}, primitives.MatMul(x, router), nil)
		r := primitives.Prepare(primitives.PrepareOp{Experts: 4}, experts)
		rows, rowWeights := primitives.DispatchWeighted(r, x, weights)
		y := primitives.Mul(primitives.GroupedMatMul(r, rows, w), primitives.BroadcastInDim(rowWeights, rows.Type.Shape, 0))
		return []*graph.Value{primitives.Combine(r, y)}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(p)
	// Output:
	// program moe(x f32[8,4], router f32[4,4], w f32[4,4,4]) {
	// 	v1 f32[8,4] = dot_general(x, router) lhs_contract=[1] rhs_contract=[0]
	// 	v2 f32[8,2], v3 i32[8,2], v4 f32[8,4] = router(v1) top_k=2 renormalize=true
	// 	v5 i32[8,2,2], v6 bool[8,2], v7 i32[4], v8 i32[4], v9 i32[4] = ep_prepare(v3) experts=4
	// 	v10 f32[16,4], v11 f32[16] = ep_dispatch(x, v2, v5) experts=4
	// 	v12 f32[16,4] = grouped_matmul(v10, w, v5)
	// 	v13 f32[16,4] = broadcast_in_dim(v11) shape=[16,4] dims=[0]
	// 	v14 f32[16,4] = mul(v12, v13)
	// 	v15 f32[8,4] = ep_combine(v14, v5) experts=4
	// 	return v15
	// }
}

// A mistake stops the trace, with an error at the user's line.
func ExampleMatMul() {
	_, err := graph.Trace("wrong", func(t *graph.Tracer) []*graph.Value {
		return []*graph.Value{primitives.MatMul(t.Input("x", graph.F32, 8, 4), t.Input("w", graph.F32, 5, 2))}
	})
	fmt.Println(err)
	// Output:
	// example_test.go:45: dot_general(f32[8,4], f32[5,2]): dimension 1 of f32[8,4] has size 4 and dimension 0 of f32[5,2] has size 5, want one size for the two of a contract pair
}
