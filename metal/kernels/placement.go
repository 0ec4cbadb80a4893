package kernels

import (
	"slices"

	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// spec returns the placement of a buffer of the plan.
func (in *Instr) spec(b int) sharding.Spec { return in.plan.Bufs[b].Spec }

// rowsWith returns the placement of the ragged rows described by buffer b, a function of their
// routing. These are the rows of an instruction of the plan having b as an argument or as its rows
// in use, or the rows described by the results of an ep_order of b. ok is false if there is no such instruction.
func (in *Instr) rowsWith(b int) (rows sharding.Spec, ok bool) {
	p, root := in.plan, in.Root(b)
	reads := func(i *lowering.Instr) bool {
		return i.Zones >= 0 && p.Root(i.Zones) == root || (i.Zones >= 0 || i.Op == ops.EPOrder) && slices.ContainsFunc(i.In, func(b int) bool { return p.Root(b) == root })
	}
	for i := range p.Instrs {
		if at := &p.Instrs[i]; reads(at) {
			if at.Op == ops.EPOrder {
				for _, o := range at.Out {
					if rows, ok := in.rowsWith(o); ok {
						return rows, true
					}
				}
			}
			for _, o := range append(slices.Clone(at.In), at.Out...) {
				if s := p.Bufs[o].Spec; s.Ragged != nil {
					return s, true
				}
			}
		}
	}
	return sharding.Spec{}, false
}
