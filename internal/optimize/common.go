package optimize

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
)

// common merges equations with equal primitives and the same arguments into the
// first of them, whose source line and names stay. Primitives are pure: the
// results are the same bits. So are their placements, which follow from the
// primitive and its arguments.
func common(p *graph.Program) (*graph.Program, error) {
	// Equations of one primitive with one first argument are few. Equations
	// without arguments have nil there.
	type key struct {
		name  string
		first *graph.Value
	}
	seen := map[key][]*graph.Eqn{}
	return rewrite(p, func(t *graph.Tracer, e *graph.Eqn, in []*graph.Value) []*graph.Value {
		k := key{name: e.Prim.Name()}
		if len(in) > 0 {
			k.first = in[0]
		}
		for _, f := range seen[k] {
			if slices.Equal(f.In, in) && graph.EqualPrimitive(f.Prim, e.Prim) {
				return f.Out
			}
		}
		out := t.Apply(e.Prim, in...)
		if len(out) > 0 {
			seen[k] = append(seen[k], out[0].Def)
		}
		return out
	})
}
