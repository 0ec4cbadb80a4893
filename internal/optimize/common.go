package optimize

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
)

// common merges equations with equal primitives and the same arguments into the
// first of them, which keeps its source line and names. Primitives are pure, so
// the results are the same bits. The placements are the same too, because they
// follow from the primitive and its arguments.
func common(p *graph.Program) (*graph.Program, error) {
	// Few equations agree in these fields, and most of them are equal.
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
