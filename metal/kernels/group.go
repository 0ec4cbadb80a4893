package kernels

import "github.com/gomoe/gomoe/primitives"

// group are the ranks that exchange rows with one, for what is computed of the table
// [sources, experts] of pairs after drops.
type group struct {
	members, experts, local int
	rows                    int // that there is room for
	sources, params         Arg // buffers of the kernels in group.metal
}

// groupOf returns that of the rank, where the instruction's first argument is the table and
// its result is about rows that some instruction of the plan works on.
func groupOf(in *Instr) (*group, error) {
	rows, ok := in.rowsWith(in.Results[0].Buf)
	if !ok {
		return nil, refuse("no instruction works on the rows that it is about")
	}
	layer, ok := rows.Ragged.Layer.(primitives.DispatchOp)
	if !ok {
		return nil, refuse("the rows were put in order by %T, want ep_dispatch", rows.Ragged.Layer)
	}
	sources, member := layer.Sources(in.Mesh, in.Rank(), rows.At(0))
	if 4*len(sources) > maxBytes {
		return nil, refuse("%d ranks exchange rows, want at most %d", len(sources), maxBytes/4)
	}
	g := &group{members: len(sources), experts: layer.Experts, local: layer.Experts / len(sources), rows: rows.Ragged.Rows}
	fields := make([]any, len(sources))
	for i, s := range sources {
		fields[i] = s
	}
	g.sources = Params(fields...)
	g.params = Params(g.members, g.experts, member*g.local, g.local, layer.Align, g.rows)
	return g, nil
}

// maxBytes is how many an OfBytes argument has at most.
const maxBytes = 4096

// fault is that of programs whose status says how many rows there would be.
func (g *group) fault(record [StatusLen]int32) error {
	if record[0] == StatusClear {
		return nil
	}
	return primitives.DispatchOp{}.NoRoom(int(record[1]), g.rows)
}
