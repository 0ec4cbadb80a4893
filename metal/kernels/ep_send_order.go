package kernels

import (
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/primitives"
)

// epSendOrder orders a rank's pairs by expert.
func epSendOrder() Kernel {
	return Kernel{
		Name: "ep_send_order", Serves: []ops.Op{ops.EPSendOrder}, Primitives: []string{"ep_dispatch", "ep_combine"},
		Doc:       "gives every pair its place among the rows that leave, in order of (expert, token, choice)",
		Build:     sendOrderProgram,
		Functions: pairFunctions(Function{"ep_send_order", 32, threadgroupMemory}),
	}
}

func sendOrderProgram(in *Instr) (*Program, error) {
	const file = "ep_send_order.metal"
	layer, err := layerOf(in)
	if err != nil {
		return nil, err
	}
	routing := in.Args[0]
	lo, hi := layer.Leaving(in.Mesh, in.Rank(), in.spec(routing.Buf).At(0))
	p, err := pairsOf(routing.Type, 2, lo, hi-lo)
	if err != nil {
		return nil, err
	}
	prog := &Program{}
	totals, earlier := In(0), In(0) // placeholders, which are not read
	if p.segments > 1 {
		earlier, totals = Scratch(0), Scratch(1)
		prog.Scratch = []int{p.counts(), 4 * p.experts}
		prog.Launches = p.histogram(file, In(0), earlier, totals)
	}
	prog.Launches = append(prog.Launches, p.launch(file, "ep_send_order", In(0), totals, earlier, Out(0)))
	return prog, nil
}

// layerOf returns the layer of the rows moved by the instruction.
func layerOf(in *Instr) (primitives.DispatchOp, error) {
	switch p := in.Prim.(type) {
	case primitives.DispatchOp:
		return p, nil
	case primitives.CombineOp:
		return primitives.DispatchOp(p), nil
	}
	return primitives.DispatchOp{}, refuse("comes from %T, want ep_dispatch or ep_combine", in.Prim)
}
