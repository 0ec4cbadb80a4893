package kernels

import (
	"math"

	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/primitives"
)

// epPrepare assigns a rank's pairs their positions in the queues of their experts, in the order of
// the global batch.
func epPrepare() Kernel {
	return Kernel{
		Name: "ep_prepare", Serves: []ops.Op{ops.EPPrepare}, Primitives: []string{"ep_prepare"},
		Doc:   "gives pairs their places in the queues of their experts, and drops those past the capacity",
		Build: prepareProgram,
		Functions: pairFunctions(
			Function{"ep_prepare_totals", prepareThreads, 4 * prepareThreads},
			Function{"ep_prepare_assign_i32", 32, threadgroupMemory}, Function{"ep_prepare_assign_i64", 32, threadgroupMemory}),
	}
}

// prepareThreads is the size of the single threadgroup adding up the table.
const prepareThreads = 256

func prepareProgram(in *Instr) (*Program, error) {
	const file = "ep_prepare.metal"
	prim, ok := in.Prim.(primitives.PrepareOp)
	if !ok {
		return nil, refuse("comes from %T, want ep_prepare", in.Prim)
	}
	ids := in.Args[0]
	p, err := pairsOf(ids.Type, 1, 0, prim.Experts)
	if err != nil {
		return nil, err
	}
	source := in.Index(in.spec(ids.Buf).At(0))
	capacity := min(prim.Capacity, math.MaxInt32) // MaxInt32 is no less than the number of pairs
	params := Params(in.Args[1].Type.Shape[0], source, prim.Experts, capacity, prim.Align, prim.Trap && capacity > 0)
	before, earlier, totals := Scratch(0), Scratch(0), Scratch(2)
	prog := &Program{Scratch: []int{4 * prim.Experts}}
	prog.Launches = []Launch{{
		Source: Source{File: file}, Function: "ep_prepare_totals",
		Args:   []Arg{In(1), Out(2), Out(3), Out(4), Out(5), before, Status(), params},
		Groups: [3]int{1, 1, 1}, Threads: [3]int{prepareThreads, 1, 1},
	}}
	if p.segments > 1 {
		earlier = Scratch(1)
		prog.Scratch = append(prog.Scratch, p.counts(), 4*prim.Experts)
		prog.Launches = append(prog.Launches, p.histogram(file, In(0), earlier, totals)...)
	}
	assign := p.launch(file, "ep_prepare_assign"+p.suffix, In(0), before, earlier, Out(0), Out(1))
	assign.Args = append(assign.Args, params)
	prog.Launches = append(prog.Launches, assign)
	prog.Fault = func(record [StatusLen]int32) error {
		if record[0] == StatusClear {
			return nil
		}
		return prim.Overflow(int(record[0]), int(record[1]))
	}
	return prog, nil
}
