package kernels

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/primitives"
)

// epPassage locates and forwards the rows travelling through machines.
func epPassage() Kernel {
	k := Kernel{
		Name: "ep_passage", Serves: []ops.Op{ops.EPPassage, ops.EPPass}, Primitives: []string{"ep_dispatch", "ep_combine"},
		Doc:   "finds the rows that travel through machines, once to each, and the rows of the zones that they fill, and passes rows on",
		Build: passageProgram,
		Functions: pairFunctions(
			Function{"passage_flags", copyThreads, 0}, Function{"passage_scan", 32, 0}, Function{"passage_rows", copyThreads, 0}, Function{"passage_zones", copyThreads, 0},
			Function{"journey_zones", 32, 0}, Function{"ep_send_order", 32, threadgroupMemory}),
	}
	for _, unit := range []string{"1", "2", "4", "16"} {
		k.Functions = append(k.Functions, Function{"ep_pass_" + unit, copyThreads, 0})
	}
	return k
}

func passageProgram(in *Instr) (*Program, error) {
	const file = "ep_passage.metal"
	if in.Op == ops.EPPass {
		n := len(in.Args) - 2
		rows := in.Results[0].Type.Shape[0]
		p := payloadOf(in.Args[:n], in.Results[0].Type.Shape[1])
		if n == 2 {
			p.weight *= in.Args[1].Type.Shape[1] // a row has the weights of all its choices
		}
		return &Program{Launches: []Launch{p.launchIn(file, "ep_pass", p.columns(), rows, In(0), second(In, n == 2), In(n), In(n+1), Out(0), p.params(rows, 1, 0, 0, 0))}}, nil
	}
	layer, err := layerOf(in)
	if err != nil {
		return nil, err
	}
	axes := in.spec(in.Results[2].Buf).At(0)
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
	of := func(i int) int { return in.Results[i].Type.Len() }
	machines, segment := in.Results[4].Type.Shape[1], max(cuts.Largest(), 1)
	first, local, rows := group.Experts[member], group.Experts.Size(member), of(6)
	room := layer.Arrivals(in.Mesh, axes, batch, k)
	params := Params(batch, k, n, member, machines, first, local, segment, of(0), of(3)/k, of(1), rows)
	journey := Params(batch, k, n, member, first, local, layer.Align, of(0), rows, room)
	splits := Params(split...)

	prog := &Program{}
	scratch := func(elements int) Arg {
		prog.Scratch = append(prog.Scratch, 4*elements)
		return Scratch(len(prog.Scratch) - 1)
	}
	flags, marks := n*segment, machines*segment
	leaving, coming, passing, arriving := scratch(marks), scratch(marks), scratch(flags), scratch(flags)
	locals, places, totals := scratch(batch*k), scratch(batch*k), scratch(4)
	sent, pairs, gaps, sizes := scratch(n), scratch(local), scratch(local+1), scratch(2*n)
	p, err := pairsOf(graph.T(graph.I32, batch*k), 1, 0, local)
	if err != nil {
		return nil, err
	}
	counts := scratch(local * p.segments)
	most := max(flags, of(0), of(1), of(2), of(3), rows, batch*k, n)
	prog.Launches = []Launch{each(file, "passage_flags", most, In(0), leaving, coming, passing, arriving, locals, Out(0), Out(1), Out(2), Out(3), Out(6), Out(7), splits, params)}
	for i, x := range []struct {
		flags  Arg
		length int
	}{{leaving, marks}, {coming, marks}, {passing, flags}, {arriving, flags}} {
		prog.Launches = append(prog.Launches, Launch{
			Source: Source{File: file}, Function: "passage_scan", Args: []Arg{x.flags, totals, Params(x.length, i)},
			Groups: [3]int{1, 1, 1}, Threads: [3]int{32, 1, 1},
		})
	}
	prog.Launches = append(prog.Launches, p.histogram(file, locals, counts, pairs)...)
	prog.Launches = append(prog.Launches,
		p.launch(file, "ep_send_order", locals, pairs, counts, places),
		each(file, "passage_rows", most, In(0), leaving, coming, passing, arriving, totals, Out(0), Out(1), Out(2), Out(3), Out(4), Out(5), sent, splits, params),
		Launch{
			Source: Source{File: file}, Function: "journey_zones", Args: []Arg{pairs, sent, gaps, sizes, Status(), journey},
			Groups: [3]int{1, 1, 1}, Threads: [3]int{32, 1, 1},
		},
		each(file, "passage_zones", batch*k, locals, places, gaps, arriving, Out(6), Out(7), splits, params))
	prog.Fault = func(record [StatusLen]int32) error {
		if record[0] == StatusClear {
			return nil
		}
		return primitives.DispatchOp{}.NoRoom(int(record[1]), int(record[2]))
	}
	return prog, nil
}
