package sharding_test

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// Which ranks a mesh has, and what one of them holds.
func ExampleMesh() {
	mesh, err := sharding.ParseMesh("dp=2,ep=4")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(mesh.Ranks(), "ranks")
	fmt.Println("rank 6 exchanges rows with", mesh.Group(6, []string{"ep"}))

	tokens, spec := graph.T(graph.F32, 1024, 512), sharding.Split("dp.ep")
	fmt.Println(spec.Format(tokens), "of which a rank has", spec.Local(mesh, tokens))
	// Output:
	// 8 ranks
	// rank 6 exchanges rows with [4 5 6 7]
	// f32[1024@dp.ep,512] of which a rank has f32[128,512]
}

// The inputs' placements are carried through every equation.
func ExamplePropagate() {
	p, err := graph.Parse("line.graph", `program line(x f32[8,4], w f32[4,2]) {
	y f32[8,2] = dot_general(x, w) lhs_contract=[1] rhs_contract=[0]
	z f32[8,2] = tanh(y)
	return z
}
`, primitives.All()...)
	if err != nil {
		fmt.Println(err)
		return
	}
	mesh, err := sharding.ParseMesh("tp=2")
	if err != nil {
		fmt.Println(err)
		return
	}
	// The summed dimension is split: y is a sum that is pending, and tanh needs it added.
	a, err := sharding.Propagate(context.Background(), p, mesh, map[string]sharding.Spec{"x": sharding.Split("", "tp"), "w": sharding.Split("tp")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(a.Format())
	// Output:
	// program line(x f32[8,4@tp], w f32[4@tp,2]) {
	// 	y f32[8,2]{+tp} = dot_general(x, w) lhs_contract=[1] rhs_contract=[0]
	// 	z f32[8,2] = tanh(y)
	// 	return z
	// }
}
