package kernels

import "github.com/gomoe/gomoe/lowering/ops"

// epSlots lists the rows of the zones filled by each received row.
func epSlots() Kernel {
	return Kernel{
		Name: "ep_slots", Serves: []ops.Op{ops.EPSlots}, Primitives: []string{"ep_dispatch", "ep_combine"},
		Doc:       "lists, for every row that has arrived and every choice of its token, the row of the zones",
		Build:     slotsProgram,
		Functions: []Function{{"slots_clear", copyThreads, 0}, {"slots_set", copyThreads, 0}},
	}
}

func slotsProgram(in *Instr) (*Program, error) {
	const file = "ep_slots.metal"
	slots, rows := in.Results[0].Type, in.Args[0].Type.Len()
	params := Params(slots.Len(), rows, slots.Shape[1])
	return &Program{Launches: []Launch{
		each(file, "slots_clear", slots.Len(), Out(0), params),
		each(file, "slots_set", rows, In(0), In(1), Out(0), params),
	}}, nil
}
