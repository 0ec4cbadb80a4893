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
	// Equations that agree in these are few, and mostly equal.
	type key struct {
		name, params  string
		first, second *graph.Value
	}
	seen := map[key][]*graph.Eqn{}
	return rewrite(p, func(t *graph.Tracer, e *graph.Eqn, in []*graph.Value) []*graph.Value {
		k := key{name: e.Prim.Name(), params: graph.ParamString(e.Prim)}
		if len(in) > 0 {
			k.first = in[0]
		}
		if len(in) > 1 {
			k.second = in[1]
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
