package sharding

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
)

// sums places the body of a loop so that sums accumulated by its iterations stay pending
// until the loop has ended: ranks then exchange data once, and not in every iteration. In
// a loop inside the body of another, which may add them up, the gradients returned by
// iterations stay pending as well. Elsewhere each iteration adds up its own: the
// gradients of all iterations at once have as many bytes, and would be held twice. sums
// returns nil if there is neither.
//
// A carried value is such a sum if the body adds to it and reads it for nothing else, and
// if the addend is pending. A gradient is pending as well, although it is placed like its
// value, if it is read only for the sum.
func (l *loop) sums() *Assignment {
	u := usesOf(l.s.Body)
	carried := l.in[l.s.Consts:][:l.s.Carry]
	added, leaves := map[int][]*graph.Value{}, map[int][]*graph.Eqn{}
	l.leaves = map[*graph.Eqn]bool{}
	for _, v := range l.s.Body.Out[l.s.Carry:] {
		if l.asg.inside && v.Def != nil && isPlaceLike(v.Def) && u.count[v] == 1 {
			l.leaves[v.Def] = true
		}
	}
	returned := len(l.leaves) > 0
	for j, sum := range l.s.Body.Out[:l.s.Carry] {
		if others := u.added(l.s.Body.In[l.s.Consts+j], sum); len(others) > 0 {
			added[j] = others
		}
		for _, v := range added[j] {
			leaves[j] = u.placed(leaves[j], v)
		}
		for _, e := range leaves[j] {
			l.leaves[e] = true
		}
	}
	if len(added) == 0 && !returned {
		return nil
	}
	body, err := l.propagate(l.s.Body)
	if err != nil {
		l.leaves = nil
		return nil
	}
	found := map[int]bool{}
	for j, values := range added {
		for _, v := range values {
			if p := body.Spec[v].Pending; len(p) > 0 && !body.flexible[v] {
				carried[j].Pending, found[j] = p, true
			}
		}
	}
	drop := func(j int) {
		carried[j].Pending = nil
		for _, e := range leaves[j] {
			delete(l.leaves, e)
		}
		delete(found, j)
	}
	for j := range added {
		if !found[j] {
			drop(j)
		}
	}
	for len(found) > 0 || returned {
		if body, err = l.propagate(l.s.Body); err != nil {
			break
		}
		all := true
		for j, sum := range l.s.Body.Out[:l.s.Carry] {
			if found[j] && !slices.Equal(body.Spec[sum].Pending, carried[j].Pending) {
				drop(j)
				all = false
			}
		}
		if all {
			return body
		}
	}
	for j := range carried {
		drop(j)
	}
	l.leaves = nil
	return nil
}

// uses records the uses of the values of a program.
type uses struct {
	count map[*graph.Value]int        // by equations and as results
	by    map[*graph.Value]*graph.Eqn // the last equation reading it
}

func usesOf(p *graph.Program) uses {
	u := uses{map[*graph.Value]int{}, map[*graph.Value]*graph.Eqn{}}
	for _, e := range p.Eqns {
		for _, v := range e.In {
			u.count[v]++
			u.by[v] = e
		}
	}
	for _, v := range p.Out {
		u.count[v]++
	}
	return u
}

// added returns the other arguments of the equations leading from the value at to the
// value sum, nil if at, or a value in between, is read for anything else.
func (u uses) added(at, sum *graph.Value) []*graph.Value {
	var others []*graph.Value
	for at != sum {
		e := u.by[at]
		if u.count[at] != 1 || e == nil || len(e.Out) != 1 {
			return nil
		}
		for _, v := range e.In {
			if v != at {
				others = append(others, v)
			}
		}
		at = e.Out[0]
	}
	if u.count[sum] != 1 {
		return nil
	}
	return others
}

// placed appends to list the place_like equations from which v is computed, if nothing
// else reads their results.
func (u uses) placed(list []*graph.Eqn, v *graph.Value) []*graph.Eqn {
	if v.Def == nil || u.count[v] != 1 {
		return list
	}
	if isPlaceLike(v.Def) {
		return append(list, v.Def)
	}
	for _, w := range v.Def.In {
		list = u.placed(list, w)
	}
	return list
}

// passes returns the place_like equations with a result that is only placed once more. A
// pending sum is then completed while moving to the second placement, by one
// reduce_scatter if a gradient goes to the shards of its value.
func (u uses) passes(p *graph.Program) map[*graph.Eqn]bool {
	list := map[*graph.Eqn]bool{}
	for _, e := range p.Eqns {
		if !isPlaceLike(e) {
			continue
		}
		if by := u.by[e.Out[0]]; u.count[e.Out[0]] == 1 && by != nil && by.In[0] == e.Out[0] {
			if _, places := by.Prim.(Leaver); places || isPlaceLike(by) {
				list[e] = true
			}
		}
	}
	return list
}

// derived returns the equations with results that are read only by place_like, to be
// moved, and by other such equations. The values that a result is placed like are not
// read.
func derived(p *graph.Program) map[*graph.Eqn]bool {
	other := map[*graph.Value]bool{} // is read by another equation
	for _, v := range p.Out {
		other[v] = true
	}
	list := map[*graph.Eqn]bool{}
	for _, e := range slices.Backward(p.Eqns) {
		list[e] = !slices.ContainsFunc(e.Out, func(v *graph.Value) bool { return other[v] })
		if list[e] || isPlaceLike(e) {
			continue
		}
		for _, v := range e.In {
			other[v] = true
		}
	}
	return list
}

func isPlaceLike(e *graph.Eqn) bool {
	_, ok := e.Prim.(graph.PlaceLikeOp)
	return ok
}
