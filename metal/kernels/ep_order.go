package kernels

import "github.com/gomoe/gomoe/lowering/ops"

// epOrder composes the orders of rows that stay on their rank.
func epOrder() Kernel {
	return Kernel{
		Name: "ep_order", Serves: []ops.Op{ops.EPOrder}, Primitives: []string{"ep_dispatch", "ep_combine"},
		Doc:       "lists the row of the zones of every pair, and the token and choice of every row, of tokens that stay on their rank",
		Build:     orderProgram,
		Functions: []Function{{"order_clear", copyThreads, 0}, {"order_set", copyThreads, 0}},
	}
}

func orderProgram(in *Instr) (*Program, error) {
	const file = "ep_order.metal"
	pairs, rows := in.Args[0].Type, in.Results[1].Type.Len()
	params := Params(pairs.Len(), pairs.Shape[1], in.Args[1].Type.Len(), rows)
	return &Program{Launches: []Launch{
		each(file, "order_clear", rows, Out(1), Out(2), params),
		each(file, "order_set", pairs.Len(), In(0), In(1), Out(0), Out(1), Out(2), params),
	}}, nil
}
