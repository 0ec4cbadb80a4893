package runtime

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/lowering"
)

// Observer is shown what the host's kernels work on, as tests of other devices want it.
// Ranks call it at once, each for its own instructions in their order, and wait for it.
// Arrays are the memory that the kernel works on: of ragged rows all that there is
// room for, of which those past the rows in use hold anything. They are valid until it
// returns, and not written to.
type Observer interface {
	// Before is called before a kernel runs. A result may have the memory of an argument.
	Before(k Observed)
	// After is called when it has run without an error.
	After(k Observed)
}

// Observed is a kernel's run.
type Observed struct {
	Plan    *lowering.Plan
	Rank    int
	Index   int // of the instruction
	In, Out []array.Array
	Zones   array.Array // the rows in use of each local expert, of ragged instructions
}

// observed is what the rank's instruction i works on.
func (r *rank) observed(i int) Observed {
	in := &r.plan.Instrs[i]
	o := Observed{Plan: r.plan, Rank: r.comm.Rank(), Index: i}
	for _, b := range in.In {
		o.In = append(o.In, r.bufs[b])
	}
	for _, b := range in.Out {
		o.Out = append(o.Out, r.bufs[b])
	}
	if in.Zones >= 0 {
		o.Zones = r.bufs[in.Zones]
	}
	return o
}
