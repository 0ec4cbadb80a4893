package vjp_test

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// A straight-through estimator: rounding, whose true derivative is zero, is
// given the derivative of the identity.
func ExampleCustom() {
	quantise := func(x *graph.Value) *graph.Value {
		return vjp.Custom("quantise",
			func(_ *graph.Tracer, x []*graph.Value) []*graph.Value {
				return []*graph.Value{primitives.Round(x[0])}
			},
			func(_ *graph.Tracer, x, y, ct []*graph.Value) []*graph.Value {
				return ct
			}, x)[0]
	}
	p, err := graph.Trace("model", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.F32, 8)
		return []*graph.Value{primitives.ReduceSum(quantise(x))}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := vjp.Grad(p)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(g)
	// Output:
	// program quantise(x0 f32[8]) {
	// 	v1 f32[8] = round(x0)
	// 	return v1
	// }
	//
	// program quantise_vjp(x0 f32[8], y0 f32[8], ct0 f32[8]) {
	// 	return ct0
	// }
	//
	// program model_grad(x f32[8]) {
	// 	v1 f32[8] = custom_vjp(x) fn=quantise vjp=quantise_vjp
	// 	v2 f32[] = reduce_sum(v1) axes=[0]
	// 	v3 f32[] = full() value=1 dtype=f32
	// 	v4 f32[8] = broadcast_in_dim(v3) shape=[8]
	// 	"grad(x)" f32[8] = place_like(v4, x)
	// 	return v2, "grad(x)"
	// }
}
