package kernels_test

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/metal/kernels"
)

// A plan for Apple's GPUs is made anywhere: ◆ marks what the GPU runs.
func Example() {
	p, err := gomoe.Parse("line.graph", `program line(x f32[8,4], w f32[4,2]) {
	y f32[8,2] = dot_general(x, w) lhs_contract=[1] rhs_contract=[0]
	z f32[8,2] = tanh(y)
	return z
}
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := gomoe.Compile(context.Background(), p, gomoe.Config{Target: kernels.Metal{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(plan)
	// Output:
	// plan line mesh "" ranks=1 arena=0 device=metal
	// 	in  x            f32[8,4] b0@in
	// 	in  w            f32[4,2] b1@in
	// 	  0 ◆ b2@out f32[8,2] = dot_general(b0@in, b1@in) lhs_contract=[1] rhs_contract=[0] # line.graph:2: y
	// 	  1 ◆ b3@out f32[8,2] = tanh(b2@out) # line.graph:3: z
	// 	out z            f32[8,2] b3@out
}
