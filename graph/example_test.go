package graph_test

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// A Go function is called once with symbolic values, and becomes a program.
func ExampleTrace() {
	p, err := graph.Trace("line", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.F32, 8, 4)
		w := t.Input("w", graph.F32, 4, 2)
		return []*graph.Value{primitives.Tanh(primitives.MatMul(x, w)).Named("y")}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(p)

	q, err := graph.Parse("line.graph", p.String(), primitives.All()...)
	fmt.Println(q.String() == p.String(), err)
	// Output:
	// program line(x f32[8,4], w f32[4,2]) {
	// 	v1 f32[8,2] = dot_general(x, w) lhs_contract=[1] rhs_contract=[0]
	// 	y f32[8,2] = tanh(v1)
	// 	return y
	// }
	// true <nil>
}
