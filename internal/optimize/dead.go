package optimize

import "github.com/gomoe/gomoe/graph"

// dead removes the equations that no result depends on.
//
// The second argument of place_like counts as used, although its elements are never read:
// it determines the placement of the result, and only an equation has a placement.
// Lowering does not compute a value that is used for its placement alone.
func dead(p *graph.Program) (*graph.Program, error) {
	used := map[*graph.Eqn]bool{}
	use := func(vs []*graph.Value) {
		for _, v := range vs {
			if v.Def != nil {
				used[v.Def] = true
			}
		}
	}
	use(p.Out)
	q := *p
	q.Eqns = nil
	for i := len(p.Eqns) - 1; i >= 0; i-- {
		if used[p.Eqns[i]] {
			use(p.Eqns[i].In)
		}
	}
	for _, e := range p.Eqns {
		if used[e] {
			q.Eqns = append(q.Eqns, e)
		}
	}
	return rewrite(&q, func(*graph.Tracer, *graph.Eqn, []*graph.Value) []*graph.Value { return nil })
}
