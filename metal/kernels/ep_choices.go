package kernels

import (
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/primitives"
)

// epChoices checks a rank's choices, which all ranks gather.
func epChoices() Kernel {
	return Kernel{
		Name: "ep_choices", Serves: []ops.Op{ops.EPChoices}, Primitives: []string{"ep_prepare", "ep_dispatch", "ep_combine"},
		Doc:       "copies which expert each of a rank's pairs chooses; experts that there are not are errors",
		Build:     choicesProgram,
		Functions: explaining(Function{"ep_choices_i32", copyThreads, 0}, Function{"ep_choices_i64", copyThreads, 0}),
	}
}

func choicesProgram(in *Instr) (*Program, error) {
	const file = "ep_choices.metal"
	experts, err := expertsOf(in)
	if err != nil {
		return nil, err
	}
	p, fault, err := choicesOf(in, experts)
	if err != nil {
		return nil, err
	}
	copied := each(file, "ep_choices"+p.suffix, p.n, In(0), Out(0), Status(), p.params())
	return &Program{Launches: []Launch{copied, p.explain(file, In(0))}, Fault: fault}, nil
}

// each returns a launch with a thread for each of n elements.
func each(file, function string, n int, args ...Arg) Launch {
	return Launch{
		Source: Source{File: file}, Function: function, Args: args,
		Groups: [3]int{(n + copyThreads - 1) / copyThreads, 1, 1}, Threads: [3]int{copyThreads, 1, 1},
	}
}

// expertsOf returns the number of experts of the instruction's layer.
func expertsOf(in *Instr) (int, error) {
	if p, ok := in.Prim.(primitives.PrepareOp); ok {
		return p.Experts, nil
	}
	layer, err := layerOf(in)
	return layer.Experts, err
}
