package runtime

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/lowering"
)

// Observer sees the arguments and results of the host's kernels; tests of devices use it.
// Ranks call it concurrently, each for its own instructions in order, and each call
// blocks its rank. The arrays are the memory that the kernel works on: a ragged array has
// all its rows, and those past the rows in use hold undefined data. The arrays are valid
// until the method returns, which must not write to them.
type Observer interface {
	// Before is called before a kernel runs. A result may share the memory of an
	// argument.
	Before(k Observed)
	// After is called when the kernel has run without an error.
	After(k Observed)
}

// Observed is one run of a kernel.
type Observed struct {
	Plan    *lowering.Plan
	Rank    int
	Index   int // of the instruction
	In, Out []array.Array
	Zones   array.Array // the rows in use of each local expert; for ragged instructions only
}

// observed returns the Observed of the rank's instruction i.
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
