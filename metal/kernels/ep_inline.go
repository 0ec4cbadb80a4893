package kernels

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/primitives"
)

// epInline packs rows followed by their choices, and locates the rows received in this form.
func epInline() Kernel {
	k := Kernel{
		Name: "ep_inline", Serves: []ops.Op{ops.EPPackInline, ops.EPArrived, ops.EPFromSegments}, Primitives: []string{"ep_dispatch"},
		Doc:   "packs rows that travel with their choices, and finds from what has arrived the choices, and the rows of the zones",
		Build: inlineProgram,
		Functions: pairFunctions(
			Function{"inline_keys", copyThreads, 0}, Function{"inline_places", 32, threadgroupMemory},
			Function{"arrived_own", copyThreads, 0}, Function{"arrived_rows", copyThreads, 0}, Function{"arrived_at", copyThreads, 0},
			Function{"ep_from_segments", copyThreads, 0}),
	}
	for _, unit := range []string{"1", "2", "4", "16"} {
		k.Functions = append(k.Functions, Function{"ep_pack_inline_" + unit, copyThreads, 0})
	}
	return k
}

const inlineFile = "ep_inline.metal"

func inlineProgram(in *Instr) (*Program, error) {
	if in.Op == ops.EPFromSegments {
		rows := in.Args[0].Type.Len()
		return &Program{Launches: []Launch{each(inlineFile, "ep_from_segments", rows, In(0), In(1), Out(0), Params(rows))}}, nil
	}
	layer, err := layerOf(in)
	if err != nil {
		return nil, err
	}
	if in.Op == ops.EPArrived {
		return arrivedProgram(in, layer)
	}
	return packInlineProgram(in, layer)
}

// segmentGroup is a group of ranks exchanging rows followed by their choices.
type segmentGroup struct {
	tokens        []int // of each member
	segment       int   // rows
	split, params Arg   // see ep_inline.metal
}

// segmentGroupOf returns the rank's group, given the routing of the rank's tokens and the rows on the
// wire.
func segmentGroupOf(in *Instr, layer primitives.DispatchOp, routing, wire Operand) (*segmentGroup, error) {
	b := &in.plan.Bufs[routing.Buf]
	axes, batch, k := b.Spec.At(0), b.Global.Shape[0], b.Global.Shape[1]
	cuts, g := in.Mesh.Cuts(axes, batch), &segmentGroup{}
	group, member := layer.Group(in.Mesh, in.Rank(), axes)
	n := len(group.Sources)
	if 4*(3*n+1) > maxBytes {
		return nil, refuse("%d ranks exchange rows, want at most %d", n, (maxBytes/4-1)/3)
	}
	split := make([]any, 3*n+1)
	for m, s := range group.Sources {
		split[m], split[m+1] = group.Experts[m], group.Experts[m+1]
		split[n+1+m], split[2*n+1+m] = cuts[s], cuts[s+1]
		g.tokens = append(g.tokens, cuts.Size(s))
	}
	g.split, g.segment = Params(split...), cuts.Largest()
	types, row := in.plan.Bufs[wire.Buf].Packed, wire.Type.Shape[1]
	note := row - int(types[len(types)-1].Bytes())
	g.params = Params(batch, k, n, member, g.segment, row, note)
	return g, nil
}

func packInlineProgram(in *Instr, layer primitives.DispatchOp) (*Program, error) {
	last := len(in.Args) - 1
	routing, wire := in.Args[last], in.Results[0]
	g, err := segmentGroupOf(in, layer, routing, wire)
	if err != nil {
		return nil, err
	}
	chosen, err := pairsOf(routing.Type, 2, 0, layer.Experts)
	if err != nil {
		return nil, err
	}
	leads, err := pairsOf(graph.T(graph.I32, chosen.n), 1, 0, len(g.tokens))
	if err != nil {
		return nil, err
	}
	slots := wire.Type.Shape[0]
	keys, order, earlier := Scratch(0), Scratch(1), Scratch(0) // a placeholder, which is not read
	prog := &Program{Scratch: []int{4 * chosen.n, 4 * slots}}
	prog.Launches = []Launch{each(inlineFile, "inline_keys", max(chosen.n, slots), In(last), keys, order, Status(), g.split, g.params, chosen.params())}
	if leads.segments > 1 {
		earlier = Scratch(2)
		prog.Scratch = append(prog.Scratch, leads.counts(), 4*leads.experts)
		prog.Launches = append(prog.Launches, leads.histogram(inlineFile, keys, earlier, Scratch(3))...)
	}
	prog.Launches = append(prog.Launches, leads.launch(inlineFile, "inline_places", keys, earlier, order, In(last), Status(), g.params, chosen.params()))
	p := payloadOf(in.Args[:last], wire.Type.Shape[1])
	if last == 2 {
		p.weight *= in.Args[1].Type.Shape[1] // a row has the weights of all its choices
	}
	pack := p.launchIn(inlineFile, "ep_pack_inline", p.columns()+1, slots,
		In(0), second(In, last == 2), order, In(last), Out(0), Out(0), g.params, p.params(slots, 1, 0, 0, 0))
	prog.Launches = append(prog.Launches, pack)
	prog.Fault = func(record [StatusLen]int32) error {
		if record[0] == StatusClear {
			return nil
		}
		return primitives.DispatchOp{}.NoExpert(int(record[0]), int(record[2]), layer.Experts)
	}
	return prog, nil
}

func arrivedProgram(in *Instr, layer primitives.DispatchOp) (*Program, error) {
	g, err := segmentGroupOf(in, layer, in.Args[1], in.Args[0])
	if err != nil {
		return nil, err
	}
	n, pairs, rows := len(g.tokens), in.Results[0].Type.Len(), in.Results[1].Type.Len()
	chosen, at, counts := Out(0), Out(1), Scratch(0)
	return &Program{
		Scratch: []int{4 * n},
		Launches: []Launch{
			each(inlineFile, "arrived_own", max(pairs, n), In(1), chosen, counts, g.split, g.params),
			each(inlineFile, "arrived_rows", rows, In(0), In(1), chosen, counts, Status(), g.split, g.params),
			each(inlineFile, "arrived_at", rows, counts, In(0), at, Status(), g.params),
		},
		Fault: func(record [StatusLen]int32) error {
			if record[0] == StatusClear {
				return nil
			}
			row, member := int(record[0])%g.segment, int(record[0])/g.segment
			return primitives.DispatchOp{}.NoToken(row, member, int(record[1]), g.tokens[member])
		},
	}, nil
}
