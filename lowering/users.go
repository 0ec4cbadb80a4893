package lowering

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
)

// Users returns the equations that read v and on which results of the program depend.
// result reports whether v itself is a result. Equations that use only the placement of v
// are not included.
func (e *Emitter) Users(v *graph.Value) (users []*graph.Eqn, result bool) {
	p := e.asg.Program
	live := liveEqns(p)
	for _, q := range p.Eqns {
		if live[q] && slices.Contains(readBy(q), v) {
			users = append(users, q)
		}
	}
	return users, slices.Contains(p.Out, v)
}

// Used reports whether v is a result of the program, or one depends on it.
func (e *Emitter) Used(v *graph.Value) bool {
	users, result := e.Users(v)
	return result || len(users) > 0
}

// readBy returns the arguments of an equation that are read for their contents.
func readBy(q *graph.Eqn) []*graph.Value {
	switch q.Prim.(type) {
	case graph.PlaceLikeOp, graph.BarrierOp:
		return q.In[:1]
	}
	return q.In
}
