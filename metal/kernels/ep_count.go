package kernels

import "github.com/gomoe/gomoe/lowering/ops"

// epCount counts a rank's pairs of each expert: those in the argument of ep_prepare, or
// those in a routing that another primitive made.
func epCount() Kernel {
	return Kernel{
		Name: "ep_count", Serves: []ops.Op{ops.EPCount}, Primitives: []string{"ep_prepare", "ep_dispatch", "ep_combine"},
		Doc:   "counts how many of a rank's pairs choose each expert; experts that there are not are errors",
		Build: countProgram,
		Functions: pairFunctions(explaining(
			Function{"ep_count_i32", 32, threadgroupMemory}, Function{"ep_count_i64", 32, threadgroupMemory})...),
	}
}

func countProgram(in *Instr) (*Program, error) {
	const file = "ep_count.metal"
	p, fault, err := choicesOf(in, in.Results[0].Type.Len())
	if err != nil {
		return nil, err
	}
	count := p.launch(file, "ep_count"+p.suffix, In(0), Out(0), Status())
	if p.segments == 1 {
		return &Program{Launches: []Launch{count}, Fault: fault}, nil
	}
	count.Args[1] = Scratch(0)
	return &Program{
		Scratch:  []int{p.counts()},
		Launches: []Launch{count, p.scan(file, Scratch(0), Out(0)), p.explain(file, In(0))},
		Fault:    fault,
	}, nil
}
