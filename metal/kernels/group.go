package kernels

import "github.com/gomoe/gomoe/primitives"

// group is the ranks exchanging rows with this rank. It serves kernels computing from the table
// [sources, experts] of pairs after drops.
type group struct {
	members, experts, local int
	rows                    int // capacity in rows
	sources, params         Arg // buffer arguments of the kernels in group.metal
}

// groupOf returns the rank's group. The instruction's first argument must be the table, and its
// result must describe rows used by some instruction of the plan.
func groupOf(in *Instr) (*group, error) {
	rows, ok := in.rowsWith(in.Results[0].Buf)
	if !ok {
		return nil, refuse("no instruction works on the rows that it is about")
	}
	layer, ok := rows.Ragged.Layer.(primitives.DispatchOp)
	if !ok {
		return nil, refuse("the rows were put in order by %T, want ep_dispatch", rows.Ragged.Layer)
	}
	ranks, member := layer.Group(in.Mesh, in.Rank(), rows.Ragged.Tokens)
	if 4*len(ranks.Sources) > maxBytes {
		return nil, refuse("%d ranks exchange rows, want at most %d", len(ranks.Sources), maxBytes/4)
	}
	lo, hi := ranks.Experts.Part(member)
	g := &group{members: len(ranks.Sources), experts: layer.Experts, local: hi - lo, rows: rows.Ragged.Rows}
	fields := make([]any, len(ranks.Sources))
	for i, s := range ranks.Sources {
		fields[i] = s
	}
	g.sources = Params(fields...)
	g.params = Params(g.members, g.experts, lo, g.local, layer.Align, g.rows)
	return g, nil
}

// maxBytes is the largest size of an OfBytes argument.
const maxBytes = 4096

// fault is the Fault of programs with a status record giving the required number of rows.
func (g *group) fault(record [StatusLen]int32) error {
	if record[0] == StatusClear {
		return nil
	}
	return primitives.DispatchOp{}.NoRoom(int(record[1]), g.rows)
}
