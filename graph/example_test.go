package graph_test

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
)

// power raises each element to a power. Package primitives has the primitives of models.
type power struct{ N int }

func (power) Name() string { return "power" }

func (power) Infer(in []graph.Type) ([]graph.Type, error) {
	if len(in) != 1 {
		return nil, fmt.Errorf("%d arguments, want 1", len(in))
	}
	return in, nil
}

// A Go function is called once with symbolic values, and becomes a program.
func ExampleTrace() {
	p, err := graph.Trace("line", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.F32, 8, 4)
		squares := graph.Apply1(power{2}, x)
		return []*graph.Value{graph.Apply1(power{3}, squares).Named("y")}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(p)

	q, err := graph.Parse("line.graph", p.String(), power{})
	fmt.Println(q.String() == p.String(), err)
	// Output:
	// program line(x f32[8,4]) {
	// 	v1 f32[8,4] = power(x) n=2
	// 	y f32[8,4] = power(v1) n=3
	// 	return y
	// }
	// true <nil>
}
