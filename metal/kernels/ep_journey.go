package kernels

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/primitives"
)

// epJourney computes the rows that travel, and their rows in the zones.
func epJourney() Kernel {
	return Kernel{
		Name: "ep_journey", Serves: []ops.Op{ops.EPJourney}, Primitives: []string{"ep_dispatch", "ep_combine"},
		Doc:   "finds the rows that travel, once to each rank, and the rows of the zones that they fill, from the choices of all ranks",
		Build: journeyProgram,
		Functions: pairFunctions(
			Function{"journey_keys", copyThreads, 0}, Function{"ep_send_order", 32, threadgroupMemory},
			Function{"journey_zones", 32, 0}, Function{"journey_rows", copyThreads, 0}),
	}
}

func journeyProgram(in *Instr) (*Program, error) {
	const file = "ep_journey.metal"
	axes := in.spec(in.Results[1].Buf).At(0)
	layer, err := layerOf(in)
	if err != nil {
		return nil, err
	}
	group, member := layer.Group(in.Mesh, in.Rank(), axes)
	n := len(group.Sources)
	if 4*(3*n+1) > maxBytes {
		return nil, refuse("%d ranks exchange rows, want at most %d", n, (maxBytes/4-1)/3)
	}
	batch, k := in.Args[0].Type.Shape[0], in.Args[0].Type.Shape[1]
	cuts, split := in.Mesh.Cuts(axes, batch), make([]any, 3*n+1)
	for m, s := range group.Sources {
		split[m], split[m+1] = group.Experts[m], group.Experts[m+1]
		split[n+1+m], split[2*n+1+m] = cuts[s], cuts[s+1]
	}
	first, local, own := group.Experts[member], group.Experts.Size(member), cuts.Size(group.Sources[member])
	leave, room := in.Results[0].Type.Len(), in.Results[2].Type.Len()
	params := Params(batch, k, n, member, first, local, layer.Align, leave, room, layer.Arrivals(in.Mesh, axes, batch, k))
	splits := Params(split...)

	prog := &Program{}
	scratch := func(elements int) Arg {
		prog.Scratch = append(prog.Scratch, 4*elements)
		return Scratch(len(prog.Scratch) - 1)
	}
	// order appends the launches sorting n keys below bins stably. It returns the place of each
	// key; totals receives the number of keys of each bin.
	order := func(keys Arg, n, bins int, totals Arg) (Arg, error) {
		p, err := pairsOf(graph.T(graph.I32, n), 1, 0, bins)
		if err != nil {
			return Arg{}, err
		}
		places, counts := scratch(n), scratch(bins*p.segments)
		prog.Launches = append(prog.Launches, p.histogram(file, keys, counts, totals)...)
		prog.Launches = append(prog.Launches, p.launch(file, "ep_send_order", keys, totals, counts, places))
		return places, nil
	}
	out, home, from, choice, sizes := Out(0), Out(1), Out(2), Out(3), Out(4)
	leads, arrives, locals := scratch(own*k), scratch(batch), scratch(batch*k)
	arriving, pairs, gaps := scratch(n), scratch(local), scratch(local+1)
	prog.Launches = []Launch{each(file, "journey_keys", max(batch, room), In(0), leads, arrives, locals, from, choice, splits, params)}
	leading, err := order(leads, own*k, n, sizes)
	if err != nil {
		return nil, err
	}
	arrived, err := order(arrives, batch, n, arriving)
	if err != nil {
		return nil, err
	}
	ordered, err := order(locals, batch*k, local, pairs)
	if err != nil {
		return nil, err
	}
	prog.Launches = append(prog.Launches, Launch{
		Source: Source{File: file}, Function: "journey_zones", Args: []Arg{pairs, arriving, gaps, sizes, Status(), params},
		Groups: [3]int{1, 1, 1}, Threads: [3]int{32, 1, 1},
	}, each(file, "journey_rows", max(batch*k, leave), In(0), leads, leading, locals, ordered, arrived, gaps, sizes, out, home, from, choice, splits, params))
	prog.Fault = func(record [StatusLen]int32) error {
		if record[0] == StatusClear {
			return nil
		}
		return primitives.DispatchOp{}.NoRoom(int(record[1]), int(record[2]))
	}
	return prog, nil
}
