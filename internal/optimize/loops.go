package optimize

import (
	"context"
	"slices"

	"github.com/gomoe/gomoe/graph"
)

// loops runs all passes on the bodies of loops, and removes from each loop its unused
// values: results of an iteration, and carried values, constants and inputs of an
// iteration that no used value depends on. A value that every iteration carries on
// unchanged becomes a constant. Equations used only by such arguments are dead.
func loops(ctx context.Context, p *graph.Program) (*graph.Program, error) {
	lean := map[*graph.Eqn]*loop{}
	used := map[*graph.Value]bool{}
	use := func(vs []*graph.Value) {
		for _, v := range vs {
			used[v] = true
		}
	}
	use(p.Out)
	q := *p
	q.Eqns = nil
	for _, e := range slices.Backward(p.Eqns) {
		if !slices.ContainsFunc(e.Out, func(v *graph.Value) bool { return used[v] }) {
			continue
		}
		q.Eqns = append(q.Eqns, e)
		s, ok := e.Prim.(graph.ScanOp)
		if !ok {
			use(e.In)
			continue
		}
		l, err := newLoop(ctx, s, e, used, p.Out)
		if err != nil {
			return nil, err
		}
		lean[e] = l
		for _, i := range l.args {
			used[e.In[i]] = true
		}
		use(l.instead(e.In))
	}
	slices.Reverse(q.Eqns)
	return rewrite(&q, func(t *graph.Tracer, e *graph.Eqn, in []*graph.Value) []*graph.Value {
		if l := lean[e]; l != nil {
			return l.apply(t, in)
		}
		return nil
	})
}

// loop is a loop without its unused values.
type loop struct {
	op   graph.ScanOp
	args []int // indices of the old loop's arguments
	// results maps each result of the old loop to its number among the new ones; -1 for
	// an unused result, and -2-i for argument i of the old loop.
	results []int
}

func newLoop(ctx context.Context, s graph.ScanOp, e *graph.Eqn, used map[*graph.Value]bool, results []*graph.Value) (*loop, error) {
	body, err := Program(ctx, s.Body)
	if err != nil {
		return nil, err
	}
	consts, carry, each := graph.ScanArgs(s, count(len(e.In)))
	last, made := graph.ScanResults(s, count(len(e.Out)))
	wanted := func(results []int) bool {
		return slices.ContainsFunc(results, func(i int) bool { return used[e.Out[i]] })
	}
	// keep marks the kept results of the body, live the values needed for them.
	keep := make([]bool, len(body.Out))
	for j := range keep {
		keep[j] = j < s.Carry && wanted(last[j:j+1]) || j >= s.Carry && wanted(made[j-s.Carry])
	}
	var live map[*graph.Value]bool
	for again := true; again; {
		again, live = false, needs(body, keep)
		for j, v := range body.In[s.Consts:][:s.Carry] {
			if live[v] && !keep[j] {
				keep[j], again = true, true
			}
		}
	}
	// same marks the values carried on unchanged. One that is a result of the program
	// stays, because it may have a name of its own.
	same := make([]bool, s.Carry)
	for j := range same {
		if same[j] = keep[j] && body.Out[j] == body.In[s.Consts+j] && !slices.Contains(results, e.Out[last[j]]); same[j] {
			keep[j] = false
		}
	}
	live = needs(body, keep)
	l := &loop{op: graph.ScanOp{Length: s.Length, Reverse: s.Reverse, Keep: s.Keep}, results: slices.Repeat([]int{-1}, len(e.Out))}
	var in, out []*graph.Value
	take := func(v *graph.Value, args ...int) {
		in, l.args = append(in, v), append(l.args, args...)
	}
	for i, v := range body.In[:s.Consts] {
		if live[v] {
			take(v, consts[i])
		}
	}
	for j, v := range body.In[s.Consts:][:s.Carry] {
		if same[j] {
			l.results[last[j]] = -2 - carry[j]
			if live[v] {
				take(v, carry[j])
			}
		}
	}
	l.op.Consts = len(in)
	for j, v := range body.In[s.Consts:][:s.Carry] {
		if keep[j] {
			take(v, carry[j])
			l.results[last[j]] = len(out)
			out = append(out, body.Out[j])
		}
	}
	l.op.Carry = len(out)
	n := 0
	for j, v := range body.In[s.Consts+s.Carry:] {
		if !live[v] {
			continue
		}
		if slices.Contains(s.InTables, j) {
			l.op.InTables = append(l.op.InTables, n)
		}
		n++
		take(v, each[j]...)
	}
	n = 0
	next := len(out) // the number of the new loop's next result
	for j, v := range body.Out[s.Carry:] {
		if !keep[s.Carry+j] {
			continue
		}
		if slices.Contains(s.OutTables, j) {
			l.op.OutTables = append(l.op.OutTables, n)
		}
		n++
		for _, i := range made[j] {
			l.results[i] = next
			next++
		}
		out = append(out, v)
	}
	l.op.Body, err = graph.Trace(body.Name, func(t *graph.Tracer) []*graph.Value {
		env := make(map[*graph.Value]*graph.Value, len(body.In)+len(body.Eqns))
		for _, v := range in {
			env[v] = t.Input(v.Name, v.Type.DType, v.Type.Shape...)
		}
		for _, e := range body.Eqns {
			if !slices.ContainsFunc(e.Out, func(v *graph.Value) bool { return live[v] }) {
				continue
			}
			t.At(e.Pos, func() {
				for i, v := range t.Apply(e.Prim, values(env, e.In)...) {
					v.Name = e.Out[i].Name
					env[e.Out[i]] = v
				}
			})
		}
		return values(env, out)
	})
	return l, err
}

// needs returns the values of p needed for its results marked in keep.
func needs(p *graph.Program, keep []bool) map[*graph.Value]bool {
	live := map[*graph.Value]bool{}
	for j, v := range p.Out {
		if keep[j] {
			live[v] = true
		}
	}
	for _, e := range slices.Backward(p.Eqns) {
		if slices.ContainsFunc(e.Out, func(v *graph.Value) bool { return live[v] }) {
			for _, v := range e.In {
				live[v] = true
			}
		}
	}
	return live
}

// instead returns the arguments of the old loop replacing results.
func (l *loop) instead(in []*graph.Value) []*graph.Value {
	var list []*graph.Value
	for _, r := range l.results {
		if r < -1 {
			list = append(list, in[-2-r])
		}
	}
	return list
}

// apply adds the new loop, if it has results, returning the replacements for the old
// results: nil for unused ones.
func (l *loop) apply(t *graph.Tracer, in []*graph.Value) []*graph.Value {
	args := make([]*graph.Value, len(l.args))
	for i, a := range l.args {
		args[i] = in[a]
	}
	var made []*graph.Value
	if len(l.op.Body.Out) > 0 {
		made = t.Apply(l.op, args...)
	}
	out := make([]*graph.Value, len(l.results))
	for i, r := range l.results {
		switch {
		case r >= 0:
			out[i] = made[r]
		case r < -1:
			out[i] = in[-2-r]
		}
	}
	return out
}

// count returns the numbers below n.
func count(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}
