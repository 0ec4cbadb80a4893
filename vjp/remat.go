package vjp

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/graph"
)

// Keep reports whether the gradient keeps the results of an equation inside Remat. Kept
// results stay in memory from the forward to the backward pass and are not recomputed.
type Keep func(e *graph.Eqn) bool

// KeepNamed keeps the values that have one of these names (see graph.Value.Named).
func KeepNamed(names ...string) Keep {
	return func(e *graph.Eqn) bool {
		return slices.ContainsFunc(e.Out, func(v *graph.Value) bool { return slices.Contains(names, v.Name) })
	}
}

// KeepAny keeps the results that at least one of the policies keeps.
func KeepAny(policies ...Keep) Keep {
	return func(e *graph.Eqn) bool {
		return slices.ContainsFunc(policies, func(k Keep) bool { return k(e) })
	}
}

// Retained is implemented by primitives with results that are small but need an exchange
// between ranks to recompute. The gradient keeps such results if fn uses them, whatever
// the policy.
type Retained interface {
	graph.Primitive
	// Retain returns the indices of these results.
	Retain() []int
}

// Remat applies fn to args and returns fn's results. The gradient keeps args, and results
// that are Retained, such as the loads of experts. It recomputes the other values of fn
// that it needs once the cotangents of the results are available. No pass merges the
// recomputation with the first computation. Results and gradients have the same bits as
// without Remat, except that several cotangents of an argument inside fn are summed
// before adding the argument's other cotangents.
//
// fn is traced here into a program of this name. Other values of the surrounding trace
// that fn uses become arguments, too. Remat may be used inside fn and inside the body of
// a loop, and gradients may be taken of gradients. Mistakes stop the trace at the user's
// line.
func Remat(name string, fn Forward, args ...*graph.Value) []*graph.Value {
	graph.Helper()
	return RematKeep(name, nil, fn, args...)
}

// RematKeep is Remat with a policy: the gradient also keeps the results of the equations
// of fn for which keep is true. Non-float arguments of these equations, such as a
// routing, are kept with them. A nil policy keeps nothing more.
func RematKeep(name string, keep Keep, fn Forward, args ...*graph.Value) []*graph.Value {
	graph.Helper()
	types := argTypes("remat", name, args)
	if fn == nil {
		graph.Fail("remat %s: the function is nil", name)
	}
	t := graph.TracerOf(args...)
	if t == nil {
		graph.Fail("remat %s: no argument belongs to a trace; give at least one value", name)
	}
	in := make([]graph.Input, len(types))
	for i, typ := range types {
		in[i] = graph.Input{Name: fmt.Sprintf("x%d", i), Type: typ}
	}
	n := 0
	p, consts := t.Innermost().Body(name, in, func(b *graph.Tracer, x []*graph.Value) []*graph.Value {
		out := fn(b, x)
		n = len(out)
		return append(slices.Clone(out), kept(b.Eqns(), keep)...)
	})
	return graph.Apply(graph.RematOp{Fn: p, Keep: len(p.Out) - n}, append(consts, args...)...)[:n]
}

// kept returns the results that the policy keeps and those that are Retained, in order.
func kept(eqns []*graph.Eqn, keep Keep) []*graph.Value {
	with, used := map[*graph.Eqn]bool{}, map[*graph.Value]bool{}
	for i := len(eqns) - 1; i >= 0; i-- {
		for _, v := range eqns[i].In {
			used[v] = true
		}
		if e := eqns[i]; with[e] || keep != nil && keep(e) {
			with[e] = true
			for _, v := range e.In {
				if v.Def != nil && !v.Type.DType.IsFloat() {
					with[v.Def] = true
				}
			}
		}
	}
	var out []*graph.Value
	for _, e := range eqns {
		if with[e] {
			out = append(out, e.Out...)
			continue
		}
		if r, ok := e.Prim.(Retained); ok {
			for _, i := range r.Retain() {
				if used[e.Out[i]] {
					out = append(out, e.Out[i])
				}
			}
		}
	}
	return out
}

// recompute is the derivative rule of graph.RematOp. It adds the equations of Fn again,
// after barriers waiting for the cotangents. Equations with kept results are
// differentiated using these and are not added.
func recompute(t *graph.Tracer, r graph.RematOp, e *graph.Eqn, ct []*graph.Value) []*graph.Value {
	after := slices.DeleteFunc(slices.Clone(ct), func(v *graph.Value) bool { return v == nil })
	late := func(v *graph.Value) *graph.Value {
		return t.Apply(graph.BarrierOp{}, append([]*graph.Value{v}, after...)...)[0]
	}
	env, known := map[*graph.Value]*graph.Value{}, map[*graph.Value]bool{}
	b := &backward{t: t, ct: map[*graph.Value][]*graph.Value{}, needed: map[*graph.Value]bool{}}
	var wrt []*graph.Value
	for i, v := range r.Fn.In {
		env[v], known[v] = late(e.In[i]), true
		if v.Type.DType.IsFloat() {
			wrt = append(wrt, env[v])
		}
	}
	first := len(r.Fn.Out) - r.Keep
	for i, v := range r.Fn.Out[first:] {
		if !known[v] {
			env[v], known[v] = late(e.Out[first+i]), true
		}
	}
	eqns := make([]*graph.Eqn, len(r.Fn.Eqns))
	for i, q := range r.Fn.Eqns {
		again := &graph.Eqn{Prim: q.Prim, Pos: q.Pos}
		for _, v := range q.In {
			again.In = append(again.In, env[v])
		}
		if slices.ContainsFunc(q.Out, func(v *graph.Value) bool { return !known[v] }) {
			t.At(q.Pos, func() {
				for j, v := range t.Apply(q.Prim, again.In...) {
					if !known[q.Out[j]] {
						v.Name, env[q.Out[j]] = q.Out[j].Name, v
					}
				}
			})
		}
		for _, v := range q.Out {
			again.Out = append(again.Out, env[v])
		}
		eqns[i] = again
	}
	b.need(eqns, wrt)
	for i, v := range r.Fn.Out {
		if v := env[v]; ct[i] != nil && b.needed[v] {
			b.ct[v] = append(b.ct[v], ct[i])
		}
	}
	for i := len(eqns) - 1; i >= 0; i-- {
		b.step(eqns[i])
	}
	out := make([]*graph.Value, len(e.In))
	for i, v := range r.Fn.In {
		if v.Type.DType.IsFloat() {
			out[i] = b.sum(env[v])
		}
	}
	return out
}

// argTypes returns the types of the arguments of a function that is traced separately.
func argTypes(what, name string, args []*graph.Value) []graph.Type {
	graph.Helper()
	if len(args) == 0 {
		graph.Fail("%s %s has no arguments, want at least one", what, name)
	}
	types := make([]graph.Type, len(args))
	for i, v := range args {
		if v == nil {
			graph.Fail("%s %s: argument %d is nil", what, name, i)
		}
		types[i] = v.Type
	}
	return types
}
