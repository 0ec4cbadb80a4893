package kernels

import (
	"math"

	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/primitives"
)

// epKeep drops the pairs of the whole batch exceeding the capacity.
func epKeep() Kernel {
	return Kernel{
		Name: "ep_keep", Serves: []ops.Op{ops.EPKeep}, Primitives: []string{"ep_prepare", "ep_dispatch", "ep_combine"},
		Doc:       "takes the pairs that the capacity drops out of the choices of all ranks",
		Build:     keepProgram,
		Functions: pairFunctions(Function{"ep_keep", 32, threadgroupMemory}),
	}
}

func keepProgram(in *Instr) (*Program, error) {
	const file = "ep_keep.metal"
	layer, ok := in.Prim.(primitives.PrepareOp)
	if !ok {
		return nil, refuse("comes from %T, want ep_prepare", in.Prim)
	}
	p, err := pairsOf(in.Args[0].Type, 1, 0, layer.Experts)
	if err != nil {
		return nil, err
	}
	prog, earlier := &Program{}, In(0) // a placeholder, which is not read
	if p.segments > 1 {
		earlier = Scratch(0)
		prog.Scratch = []int{p.counts(), 4 * p.experts}
		prog.Launches = p.histogram(file, In(0), Scratch(0), Scratch(1))
	}
	capacity := min(layer.Capacity, math.MaxInt32) // MaxInt32 is no less than the number of pairs
	prog.Launches = append(prog.Launches, p.launch(file, "ep_keep", In(0), earlier, Out(0), Params(capacity)))
	return prog, nil
}
