package kernels

import (
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/primitives"
)

// epTable counts the pairs of every source from the choices of all.
func epTable() Kernel {
	return Kernel{
		Name: "ep_table", Serves: []ops.Op{ops.EPTable}, Primitives: []string{"ep_prepare", "ep_dispatch", "ep_combine"},
		Doc:       "counts how many pairs of each rank choose each expert, from the choices of all ranks",
		Build:     tableProgram,
		Functions: []Function{{"ep_table", tableThreads, threadgroupMemory}},
	}
}

// tableThreads is the size of the threadgroup counting the pairs of one source.
const tableThreads = 256

func tableProgram(in *Instr) (*Program, error) {
	sources, experts := in.Results[0].Type.Shape[0], in.Results[0].Type.Shape[1]
	axes, ok := in.tokenAxes()
	if !ok {
		return nil, refuse("no instruction says how the tokens are split")
	}
	mem, err := memory(experts, "counts of experts")
	if err != nil {
		return nil, err
	}
	chosen := in.Args[0].Type
	cuts := in.Mesh.Cuts(axes, chosen.Shape[0])
	starts := make([]any, sources+1)
	for s := range sources {
		starts[s], starts[s+1] = cuts[s], cuts[s+1]
	}
	if 4*len(starts) > maxBytes {
		return nil, refuse("the tokens are those of %d ranks, want at most %d", sources, maxBytes/4-1)
	}
	return &Program{Launches: []Launch{{
		Source: Source{File: "ep_table.metal"}, Function: "ep_table",
		Args:   []Arg{In(0), Out(0), Params(starts...), Params(experts, chosen.Shape[1])},
		Memory: mem, Groups: [3]int{sources, 1, 1}, Threads: [3]int{tableThreads, 1, 1},
	}}}, nil
}

// tokenAxes returns the axes splitting the tokens, given the table of their pairs: the axes of the
// ep_prepare, ep_journey or ep_passage reading the table.
func (in *Instr) tokenAxes() (axes []string, ok bool) {
	p, table := in.plan, in.Root(in.Results[0].Buf)
	for i := range p.Instrs {
		at := &p.Instrs[i]
		if len(at.In) < 2 || p.Root(at.In[1]) != table {
			continue
		}
		if _, ok := at.Prim.(primitives.PrepareOp); ok && at.Op == ops.EPPrepare {
			return p.Bufs[at.In[0]].Spec.At(0), true
		}
		switch at.Op {
		case ops.EPJourney:
			return p.Bufs[at.Out[1]].Spec.At(0), true
		case ops.EPPassage:
			return p.Bufs[at.Out[2]].Spec.At(0), true
		}
	}
	return nil, false
}
