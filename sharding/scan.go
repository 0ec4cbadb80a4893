package sharding

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/graph"
)

// loop is scan, called once for each placement of the arguments: the body of a loop is
// placed several times, and so are the loops in it.
func (c *Context) loop(s graph.ScanOp) (Decision, error) {
	key := fmt.Sprintf("%p %s %t", c.Eqn, c.Args(), c.moves)
	done, ok := c.asg.loops[key]
	if !ok {
		done.Decision, done.err = c.scan(s)
		c.asg.loops[key] = done
	}
	return done.Decision, done.err
}

type placedLoop struct {
	Decision
	err error
}

// scan places a loop: its body, once for all iterations, and its arguments and results.
//
// A carried value must have the same placement before and after an iteration. It begins
// with the placement of the first carried value. If the body carries on a value that is
// split further, that is tried as the placement of the carried value, until nothing
// changes any more, or the body cannot work on it. A value that the body still carries on
// in another placement is moved at the end of each iteration. A value to which the body
// only adds pending sums stays pending until the loop has ended (see loop.sums).
func (c *Context) scan(s graph.ScanOp) (Decision, error) {
	consts, carry, each := graph.ScanArgs(s, c.In)
	_, _, values := graph.ScanArgs(s, c.Eqn.In)
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
		if axes := vs[0].At(0); len(axes) > 0 && !c.moves {
			return Decision{}, fmt.Errorf("the array for input %s of an iteration is split over %s in dimension 0, along which the loop takes one slice for each iteration; %s",
				s.Body.In[n].Name, strings.Join(axes, "."), c.whole(values[j][0], axes))
		}
		in = append(in, Spec{Dims: vs[0].Dims[min(1, len(vs[0].Dims)):]})
	}
	l := loop{Context: c, s: s, in: in}
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

// stacked returns the placement of an array with slices along dimension 0 in placement s.
func stacked(s Spec) Spec {
	s.Dims = slices.Concat([][]string{nil}, s.Dims)
	return s
}

// loop is a loop with a body being placed.
type loop struct {
	*Context
	s  graph.ScanOp
	in []Spec // of the body's inputs
	// leaves are the place_like equations of the body with results that stay pending.
	leaves map[*graph.Eqn]bool
	// gathers: all the body's equations may have their arguments moved, because the body
	// of a derivative cannot work on them as they are.
	gathers bool
}

// place places the body, and sets the placements of carried values.
func (l *loop) place() (*Assignment, error) {
	carried := l.in[l.s.Consts:][:l.s.Carry]
	body, err := l.propagate(l.s.Body)
	if l.gathers = err != nil && l.moves; l.gathers {
		body, err = l.propagate(l.s.Body)
	}
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
			if err != nil { // the body cannot work on values with this split: it moves them back
				copy(carried, was)
				break
			}
			body = split
		}
	}
	if pending := l.sums(); pending != nil {
		body = pending
	}
	for _, v := range l.s.Body.Out[l.s.Carry:] {
		if at := body.Spec[v]; at.Ragged != nil && l.s.Keep {
			return nil, fmt.Errorf("keep: the derivative would keep %s of every iteration, which is in expert order and whose number of rows is known only to the run; leave keep out, so that the body is computed again, or return ep_combine of it", at.Format(v.Type))
		}
	}
	moved := *l.s.Body
	moved.Eqns, moved.Out = slices.Clone(moved.Eqns), slices.Clone(moved.Out)
	for j, v := range moved.Out[:l.s.Carry] {
		if at := body.Spec[v]; at.Ragged == nil && !body.has(v, carried[j]) {
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

// has reports whether v is available in placement to.
func (a *Assignment) has(v *graph.Value, to Spec) bool {
	if a.flexible[v] {
		a.wanted = map[string]bool{}
		return a.want(a.Context(v.Def), v, to) == nil
	}
	return Free(a.Spec[v], to, v.Type) == nil
}

// whole explains how an array gets a dimension 0 that no axes split. If the loop runs
// over blocks of a batch, [batch] reshaped to [block, blocks], the batch's split moves to
// the blocks when a block has too few rows for the ranks.
func (c *Context) whole(v *graph.Value, axes []string) string {
	ranks := c.Mesh.Parts(axes)
	for e := v.Def; e != nil && len(e.In) == 1; e = e.In[0].Def {
		batch, blocks := e.In[0].Type.Shape, e.Out[0].Type.Shape
		if len(blocks) == len(batch)+1 && len(batch) > 0 && blocks[0]*blocks[1] == batch[0] && blocks[0]%ranks != 0 {
			return fmt.Sprintf("a block of %d of %d rows does not divide among the %d ranks of %s, want blocks of a multiple of %d rows", blocks[0], batch[0], ranks, strings.Join(axes, "."), ranks)
		}
	}
	return "split another dimension, or gather it with sharding_constraint"
}

// propagate places the equations of the body p for inputs with the placements l.in.
func (l *loop) propagate(p *graph.Program) (*Assignment, error) {
	a := newAssignment(p, l.Mesh)
	a.stopped, a.loops = l.asg.stopped, l.asg.loops
	a.leaves, a.inside, a.moves = l.leaves, true, l.gathers
	for i, v := range p.In {
		s, err := l.in[i].Check(l.Mesh, v.Type)
		if err != nil {
			return nil, fmt.Errorf("input %s of the body: %w", v.Name, err)
		}
		a.Spec[v] = s
	}
	return a, a.equations()
}

// IsZero reports whether v is the constant 0, which is also the pending sum of zeros.
func IsZero(v *graph.Value) bool {
	if v.Def == nil {
		return false
	}
	f, ok := v.Def.Prim.(graph.FullOp)
	return ok && f.Value == 0
}
