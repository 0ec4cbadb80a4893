package fuzzprog

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
)

// Shrink returns the smallest program that it finds for which fails is still true. It
// leaves one result, turns results of equations into inputs named v0, v1, ..., and
// removes unused equations and inputs. It returns nil if p does not fail.
func Shrink(p *graph.Program, fails func(*graph.Program) bool) *graph.Program {
	if !fails(p) {
		return nil
	}
	try := func(q *graph.Program) bool {
		q = live(q)
		smaller := len(q.Eqns) < len(p.Eqns) || len(q.Eqns) == len(p.Eqns) && len(q.In) < len(p.In)
		if !smaller || graph.Check(q) != nil || !fails(q) {
			return false
		}
		p = q
		return true
	}
	for _, v := range p.Out {
		if try(&graph.Program{Name: p.Name, In: p.In, Eqns: p.Eqns, Out: []*graph.Value{v}}) {
			break
		}
	}
	try(p)
	for again := true; again; {
		again = false
		for i := len(p.Eqns) - 1; i >= 0 && i < len(p.Eqns); i-- {
			// The program may end at this equation, or begin after it.
			for _, v := range p.Eqns[i].Out {
				if v != p.Out[0] && try(&graph.Program{Name: p.Name, In: p.In, Eqns: p.Eqns, Out: []*graph.Value{v}}) {
					again = true
					break
				}
			}
			if i < len(p.Eqns) && try(without(p, i)) {
				again = true
			}
		}
	}
	return p
}

// without returns p with the results of equation i as inputs.
func without(p *graph.Program, i int) *graph.Program {
	q, err := graph.Trace(p.Name, func(t *graph.Tracer) []*graph.Value {
		env := map[*graph.Value]*graph.Value{}
		for _, v := range p.In {
			env[v] = t.Input(v.Name, v.Type.DType, v.Type.Shape...)
		}
		names := p.Names()
		fresh := func(v *graph.Value) *graph.Value {
			name := names[v]
			for p.Input(name) != nil {
				name += "_"
			}
			return t.Input(name, v.Type.DType, v.Type.Shape...)
		}
		for _, v := range p.Eqns[i].Out {
			env[v] = fresh(v)
		}
		for j, e := range p.Eqns {
			if j == i {
				continue
			}
			in := make([]*graph.Value, len(e.In))
			for k, v := range e.In {
				in[k] = env[v]
			}
			t.At(e.Pos, func() {
				for k, v := range t.Apply(e.Prim, in...) {
					v.Name = names[e.Out[k]]
					env[e.Out[k]] = v
				}
			})
		}
		out := make([]*graph.Value, len(p.Out))
		for k, v := range p.Out {
			out[k] = env[v]
		}
		return out
	})
	if err != nil {
		return p
	}
	return q
}

// live returns p without equations and inputs that no result depends on.
func live(p *graph.Program) *graph.Program {
	used := map[*graph.Value]bool{}
	for _, v := range p.Out {
		used[v] = true
	}
	q := &graph.Program{Name: p.Name, Out: p.Out}
	for _, e := range slices.Backward(p.Eqns) {
		if slices.ContainsFunc(e.Out, func(v *graph.Value) bool { return used[v] }) {
			q.Eqns = append(q.Eqns, e)
			for _, v := range e.In {
				used[v] = true
			}
		}
	}
	slices.Reverse(q.Eqns)
	back, err := graph.Trace(p.Name, func(t *graph.Tracer) []*graph.Value {
		var args []*graph.Value
		for _, v := range p.In {
			if used[v] {
				args = append(args, t.Input(v.Name, v.Type.DType, v.Type.Shape...))
				q.In = append(q.In, v)
			}
		}
		return t.Replay(q, args)
	})
	if err != nil {
		return p
	}
	return back
}
