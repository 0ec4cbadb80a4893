package optimize

import (
	"math"

	"github.com/gomoe/gomoe/graph"
)

// rewrite returns p with each equation replaced according to rule. rule gets the equation
// and its arguments in the new program. It returns the values replacing the equation's
// results, or nil to keep the equation. It may apply primitives to t, which get the
// equation's source line. A value may be nil if the replaced result is unused.
//
// Results of the program keep their names: an equation is kept if one of its named
// results would become a value with another name. A value without a name takes the name
// of the value that it replaces.
func rewrite(p *graph.Program, rule func(t *graph.Tracer, e *graph.Eqn, in []*graph.Value) []*graph.Value) (*graph.Program, error) {
	result := map[*graph.Value]bool{}
	for _, v := range p.Out {
		result[v] = true
	}
	return graph.Trace(p.Name, func(t *graph.Tracer) []*graph.Value {
		env := make(map[*graph.Value]*graph.Value, len(p.In)+len(p.Eqns))
		for _, v := range p.In {
			env[v] = t.Input(v.Name, v.Type.DType, v.Type.Shape...)
		}
		for _, e := range p.Eqns {
			in := values(env, e.In)
			t.At(e.Pos, func() {
				out := rule(t, e, in)
				if out == nil || misnames(e, out, result) {
					out = t.Apply(e.Prim, in...)
				}
				for i, v := range e.Out {
					if out[i] == nil {
						continue
					}
					if out[i].Name == "" {
						out[i].Name = v.Name
					}
					env[v] = out[i]
				}
			})
		}
		return values(env, p.Out)
	})
}

func values(env map[*graph.Value]*graph.Value, vs []*graph.Value) []*graph.Value {
	out := make([]*graph.Value, len(vs))
	for i, v := range vs {
		out[i] = env[v]
	}
	return out
}

// misnames reports whether a named result of e that is also a result of the
// program would get another name in out.
func misnames(e *graph.Eqn, out []*graph.Value, result map[*graph.Value]bool) bool {
	for i, v := range e.Out {
		if result[v] && v.Name != "" && out[i] != nil && out[i].Name != "" && out[i].Name != v.Name {
			return true
		}
	}
	return false
}

// constant returns the common number of all elements of v, before rounding to v's element
// type.
func constant(v *graph.Value) (float64, bool) {
	if v.Def == nil {
		return 0, false
	}
	f, ok := v.Def.Prim.(graph.FullOp)
	return f.Value, ok
}

// zero reports whether x is the constant 0 of the placement rules, which lets pending
// sums stay pending. No other value is replaced by it: the sum would then be added at
// another place of the program.
func zero(x float64) bool { return math.Float64bits(x) == 0 }
