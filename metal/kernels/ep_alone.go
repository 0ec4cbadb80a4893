package kernels

import (
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/primitives"
)

// epAlone assigns positions among a rank's own pairs, if nothing can be dropped and rows carry their
// choices. It also rounds the counts of all ranks up to the alignment.
func epAlone() Kernel {
	return Kernel{
		Name: "ep_alone", Serves: []ops.Op{ops.EPPrepareAlone, ops.EPPadded}, Primitives: []string{"ep_prepare"},
		Doc:   "gives a rank's pairs places among its own, where nothing can be dropped, and says how long zones are; experts that there are not are errors",
		Build: aloneProgram,
		Functions: pairFunctions(explaining(
			Function{"ep_prepare_alone_i32", 32, threadgroupMemory}, Function{"ep_prepare_alone_i64", 32, threadgroupMemory},
			Function{"alone_table", copyThreads, 0}, Function{"ep_padded", copyThreads, 0})...),
	}
}

func aloneProgram(in *Instr) (*Program, error) {
	const file = "ep_alone.metal"
	prim, ok := in.Prim.(primitives.PrepareOp)
	if !ok {
		return nil, refuse("comes from %T, want ep_prepare", in.Prim)
	}
	if in.Op == ops.EPPadded {
		return &Program{Launches: []Launch{each(file, "ep_padded", prim.Experts, In(0), Out(0), Params(prim.Experts), Params(prim.Align))}}, nil
	}
	p, fault, err := choicesOf(in, prim.Experts)
	if err != nil {
		return nil, err
	}
	table, params := Out(0), Params(0, 0) // a placeholder, which is not written
	if len(in.Results) == 3 {
		table, params = Out(2), Params(in.Results[2].Type.Len(), in.Index(in.spec(in.Args[0].Buf).At(0)))
	}
	prog, earlier := &Program{Fault: fault}, In(0) // a placeholder, which is not read
	if p.segments > 1 {
		earlier = Scratch(0)
		prog.Scratch = []int{p.counts(), 4 * p.experts}
		prog.Launches = p.histogram(file, In(0), earlier, Scratch(1))
	}
	prog.Launches = append(prog.Launches, p.launch(file, "ep_prepare_alone"+p.suffix, In(0), earlier, Out(0), Out(1), table, Status(), params))
	if p.segments == 1 {
		return prog, nil
	}
	if len(in.Results) == 3 {
		prog.Launches = append(prog.Launches, each(file, "alone_table", in.Results[2].Type.Len(), Scratch(1), table, params, p.params()))
	}
	prog.Launches = append(prog.Launches, p.explain(file, In(0)))
	return prog, nil
}
