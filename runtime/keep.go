package runtime

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/lowering"
)

// kept is a prepared copy of an argument that is kept from step to step.
type kept struct {
	mem  array.Array
	last contents // of the argument in the previous step; mem holds their copy if made is set
	made bool
}

// keep makes the copy of an input when the caller gives the same array for the second
// time, and gives it to kernels as long as the caller does. Before that, kernels work
// without: a copy of an array that is new in every step would be of no use to the
// next step.
func (r *rank) keep(in *lowering.Instr, a *exec.Args) error {
	b := in.Out[0]
	k, now := &r.kept[b], r.contents[r.plan.Root(in.In[0])]
	again := now != (contents{}) && now == k.last
	k.last = now
	if again && k.made {
		return nil
	}
	k.made, r.bufs[b] = false, array.Array{}
	if !again {
		return nil
	}
	a.Out[0] = k.mem
	if err := in.Kernel(a); err != nil {
		return err
	}
	k.made, r.bufs[b] = true, k.mem
	return nil
}
