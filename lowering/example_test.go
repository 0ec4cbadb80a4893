package lowering_test

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// A placed program becomes the plan that both ranks run.
func ExampleLower() {
	p, err := graph.Parse("line.graph", `program line(x f32[8,4], w f32[4,2]) {
	y f32[8,2] = dot_general(x, w) lhs_contract=[1] rhs_contract=[0]
	a f32[8,2] = tanh(y)
	z f32[8,2] = mul(a, a)
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
	placed, err := sharding.Propagate(p, mesh, map[string]sharding.Spec{"x": sharding.Split("", "tp"), "w": sharding.Split("tp")})
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := lowering.Lower(placed, lowering.Options{Fuse: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(plan)
	// Output:
	// plan line mesh "tp=2" ranks=2 arena=0
	// 	in  x            f32[8,4@tp] b0@in
	// 	in  w            f32[4@tp,2] b1@in
	// 	  0   b2@out f32[8,2] = dot_general(b0@in, b1@in) lhs_contract=[1] rhs_contract=[0] # line.graph:2: y
	// 	  1 ⇄ b3@out f32[8,2] = all_sum(b2@out) over tp #0 f32 64 bytes # line.graph:3: y
	// 	  2   b5@out f32[8,2] = fused(tanh, mul)(b3@out) # line.graph:4: z
	// 	    . b4 f32[8,2] = tanh(b3@out) # line.graph:3: a
	// 	    . b5@out f32[8,2] = mul(b4, b4) # line.graph:4: z
	// 	out z            f32[8,2] b5@out
}
