package kernels

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// epCount counts a rank's pairs of each expert: those in the argument of ep_prepare, or
// those in a routing that another primitive made.
func epCount() Kernel {
	return Kernel{
		Name: "ep_count", Serves: []string{"ep_count"}, Primitives: []string{"ep_prepare", "ep_dispatch", "ep_combine"},
		Doc:   "counts how many of a rank's pairs choose each expert; experts that there are not are errors",
		Build: countProgram,
		Functions: pairFunctions(
			Function{"ep_count_i32", 32, threadgroupMemory}, Function{"ep_count_i64", 32, threadgroupMemory},
			Function{"ep_count_explain_i32", 1, 0}, Function{"ep_count_explain_i64", 1, 0}),
	}
}

func countProgram(in *Instr) (*Program, error) {
	const file = "ep_count.metal"
	ids, experts := in.Args[0], in.Results[0].Type.Len()
	prepare, chosen := in.Prim.(primitives.PrepareOp)
	if ids.Type.Rank() == 3 {
		chosen = false // a routing, which has a queue position beside each expert
	}
	stride := 1
	if !chosen {
		if ids.Type.Rank() != 3 || ids.Type.DType != graph.I32 {
			return nil, refuse("%s is neither what tokens choose nor a routing", ids.Type)
		}
		stride = 2
	}
	p, err := pairsOf(ids.Type, stride, 0, experts)
	if err != nil {
		return nil, err
	}
	prog := &Program{}
	count := p.launch(file, "ep_count"+p.suffix, In(0), Out(0), Status())
	if p.segments > 1 {
		prog.Scratch = []int{p.counts()}
		count.Args[1] = Scratch(0)
		prog.Launches = []Launch{count, p.scan(file, Scratch(0), Out(0)), {
			Source: Source{File: file}, Function: "ep_count_explain" + p.suffix,
			Args: []Arg{In(0), Status(), p.params()}, Groups: [3]int{1, 1, 1}, Threads: [3]int{1, 1, 1},
		}}
	} else {
		prog.Launches = []Launch{count}
	}
	first := in.Start(ids, 0)
	choices := ids.Type.Shape[1]
	prog.Fault = func(record [StatusLen]int32) error {
		if record[0] == StatusClear {
			return nil
		}
		pair, expert := int(record[0]), int(uint32(record[2]))|int(record[3])<<32
		if record[1] != StatusClear { // a mistake was found before any pair was counted
			pair = int(record[1])
		}
		if !chosen {
			return primitives.DispatchOp{}.NoExpert(pair, expert, experts)
		}
		return prepare.NoExpert(first+pair/choices, pair%choices, expert)
	}
	return prog, nil
}
