package sharding

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/graph"
)

// scan places a loop: its body, once for all iterations, and its arguments and results.
//
// What is carried must have the same placement before and after an iteration. It begins
// with the placement of the first carried values. If the body carries on a value that is
// split further, that is tried as the placement of the carried value, until nothing
// changes any more, or the body cannot work on it. What the body then still carries on in another placement is moved at
// the end of each iteration. A sum that begins with zeros and is pending after an
// iteration stays pending until the loop has ended, if the body only adds to it.
func (c *Context) scan(s graph.ScanOp) (Decision, error) {
	consts, carry, each := graph.ScanArgs(s, c.In)
	var in []Spec
	for _, v := range c.In {
		if v.Ragged != nil {
			return Decision{}, fmt.Errorf("an argument is in expert order and its number of rows is known only to the run; use ep_combine before the loop, or dispatch inside its body")
		}
	}
	for _, v := range slices.Concat(consts, carry) {
		in = append(in, v.Resolved())
	}
	for j, vs := range each {
		n := s.Consts + s.Carry + j
		if slices.Contains(s.InTables, j) {
			in = append(in, vs[0].Resolved())
			continue
		}
		if axes := vs[0].At(0); len(axes) > 0 {
			return Decision{}, fmt.Errorf("the array for input %s of an iteration is split over %s in dimension 0, along which the loop takes one slice for each iteration; split another dimension, or gather it with sharding_constraint",
				s.Body.In[n].Name, strings.Join(axes, "."))
		}
		in = append(in, Spec{Dims: vs[0].Dims[min(1, len(vs[0].Dims)):]})
	}
	l := loop{c, s, in}
	body, err := l.place()
	if err != nil {
		return Decision{}, err
	}
	dec := Decision{Body: body}
	dec.In = append(dec.In, l.in[:s.Consts+s.Carry]...)
	for j, vs := range each {
		at := l.in[s.Consts+s.Carry+j]
		if !slices.Contains(s.InTables, j) {
			dec.In = append(dec.In, stacked(at))
			continue
		}
		for range vs {
			dec.In = append(dec.In, at)
		}
	}
	dec.Out = append(dec.Out, body.Out[:s.Carry]...)
	for j, at := range body.Out[s.Carry:] {
		if !slices.Contains(s.OutTables, j) {
			dec.Out = append(dec.Out, stacked(at))
			continue
		}
		for range s.Length {
			dec.Out = append(dec.Out, at)
		}
	}
	return dec, nil
}

// stacked returns the placement of an array whose slices along dimension 0 lie at s.
func stacked(s Spec) Spec {
	s.Dims = slices.Concat([][]string{nil}, s.Dims)
	return s
}

// loop is a loop whose body is being placed.
type loop struct {
	*Context
	s  graph.ScanOp
	in []Spec // of the body's inputs
}

// place places the body, and sets the placements of what is carried.
func (l *loop) place() (*Assignment, error) {
	carried := l.in[l.s.Consts:][:l.s.Carry]
	body, err := l.propagate(l.s.Body)
	if err != nil {
		return nil, err
	}
	for again := true; again; {
		again = false
		was := slices.Clone(carried)
		for j, v := range l.s.Body.Out[:l.s.Carry] {
			at := body.Spec[v].Resolved()
			if at.Ragged == nil && !at.Equal(carried[j]) && Free(carried[j], at, v.Type) == nil {
				carried[j], again = at, true
			}
		}
		if again {
			split, err := l.propagate(l.s.Body)
			if err != nil { // the body cannot work on what is split so: it moves it back
				copy(carried, was)
				break
			}
			body = split
		}
	}
	if sums, ok := l.pending(body); ok {
		body = sums
	}
	moved := *l.s.Body
	moved.Eqns, moved.Out = slices.Clone(moved.Eqns), slices.Clone(moved.Out)
	for j, v := range moved.Out[:l.s.Carry] {
		if at := body.Spec[v]; at.Ragged == nil && !body.flexible[v] && Free(at, carried[j], v.Type) != nil {
			e := &graph.Eqn{Prim: graph.PlaceLikeOp{}, In: []*graph.Value{v, moved.In[l.s.Consts+j]}, Pos: l.Eqn.Pos}
			e.Out = []*graph.Value{{Type: v.Type, Def: e}}
			moved.Eqns, moved.Out[j] = append(moved.Eqns, e), e.Out[0]
		}
	}
	if len(moved.Eqns) > len(l.s.Body.Eqns) {
		if body, err = l.propagate(&moved); err != nil {
			return nil, err
		}
	}
	return body, body.finish(carried)
}

// propagate places the equations of the body p for inputs that lie at l.in.
func (l *loop) propagate(p *graph.Program) (*Assignment, error) {
	a := newAssignment(p, l.Mesh)
	for i, v := range p.In {
		s, err := l.in[i].Check(l.Mesh, v.Type)
		if err != nil {
			return nil, fmt.Errorf("input %s of the body: %w", v.Name, err)
		}
		a.Spec[v] = s
	}
	return a, a.equations()
}

// pending tries to leave the sums pending that the body adds to in every iteration.
func (l *loop) pending(body *Assignment) (*Assignment, bool) {
	was := slices.Clone(l.in)
	carried := l.in[l.s.Consts:][:l.s.Carry]
	any := false
	for j, v := range l.s.Body.Out[:l.s.Carry] {
		sum := v.Def != nil && isSum(v.Def.Prim) && slices.Contains(v.Def.In, l.s.Body.In[l.s.Consts+j])
		if !sum || !isZero(l.Eqn.In[l.s.Consts+j]) || used(l.s.Body, l.s.Body.In[l.s.Consts+j]) != 1 {
			continue
		}
		for _, u := range v.Def.In {
			if p := body.Spec[u].Pending; u != l.s.Body.In[l.s.Consts+j] && len(p) > 0 {
				carried[j].Pending, any = p, true
			}
		}
	}
	if !any {
		return nil, false
	}
	sums, err := l.propagate(l.s.Body)
	if err == nil {
		for j, v := range l.s.Body.Out[:l.s.Carry] {
			if !slices.Equal(sums.Spec[v].Pending, carried[j].Pending) && len(carried[j].Pending) > 0 {
				err = fmt.Errorf("the sum does not stay pending")
			}
		}
	}
	if err != nil {
		copy(l.in, was)
		return nil, false
	}
	return sums, true
}

// isSum reports whether the primitive is the sum of cotangents.
func isSum(p graph.Primitive) bool {
	_, ok := p.(graph.AddAnyOp)
	return ok
}

// isZero reports whether v is the constant 0.
func isZero(v *graph.Value) bool {
	if v.Def == nil {
		return false
	}
	f, ok := v.Def.Prim.(graph.FullOp)
	return ok && f.Value == 0
}

// used returns how often p's equations and results use v.
func used(p *graph.Program, v *graph.Value) int {
	n := 0
	count := func(vs []*graph.Value) {
		for _, u := range vs {
			if u == v {
				n++
			}
		}
	}
	for _, e := range p.Eqns {
		count(e.In)
	}
	count(p.Out)
	return n
}
