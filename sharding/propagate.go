package sharding

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/graph"
)

// Assignment is a placed program.
type Assignment struct {
	Program *graph.Program
	Mesh    Mesh
	// Spec is the placement of every value. The result of a Flexible primitive has the
	// placement following from its arguments; each use makes its own.
	Spec map[*graph.Value]Spec
	// first is the placement of a flexible result at its first use.
	first map[*graph.Value]Spec
	// flexible holds the values that can be made in any placement.
	flexible map[*graph.Value]bool
	// leaves holds the place_like equations with results that stay pending; see
	// loop.sums. passes holds the ones with results that are only placed once more.
	leaves, passes map[*graph.Eqn]bool
	// derived holds the equations used by nothing but place_like, like the equations of a
	// derivative. Their arguments may be moved.
	derived map[*graph.Eqn]bool
	// inside: the program is the body of a loop. moves: all its equations are derived.
	inside, moves bool
	// stopped returns the cause once the context has ended, nil before.
	stopped func() error
	// loops holds the decisions for the loops of the program and of the bodies of its loops.
	loops map[string]placedLoop
	// wanted holds the placements of flexible values already checked.
	wanted map[string]bool
	// Decision is the rule's answer for every equation that is not flexible.
	Decision map[*graph.Eqn]Decision
	// Out is the placement of the program's results, after pending sums are
	// completed.
	Out []Spec
}

// Propagate places p on m, given the placements of its inputs by name. An input without a
// placement is whole on every rank, and axes missing in m count as axes of size 1. p must
// hold no call (see graph.Inline).
//
// A name with * is a pattern, and * matches any characters: layers.*.experts.* places the
// experts' weights of every layer. An input of exactly that name takes precedence. A
// pattern matching no input is an error, and so are two patterns placing an input
// differently, unless the input's own name is given too.
//
// If ctx ends, Propagate returns its cause.
func Propagate(ctx context.Context, p *graph.Program, m Mesh, in map[string]Spec) (*Assignment, error) {
	if err := m.validate(); err != nil {
		return nil, err
	}
	a := newAssignment(p, m)
	a.stopped, a.loops = func() error { return context.Cause(ctx) }, map[string]placedLoop{}
	specs, err := inputs(p, m, in)
	if err != nil {
		return nil, err
	}
	maps.Copy(a.Spec, specs)
	if err := a.equations(); err != nil {
		return nil, err
	}
	return a, a.finish(nil)
}

func newAssignment(p *graph.Program, m Mesh) *Assignment {
	return &Assignment{Program: p, Mesh: m,
		Spec: map[*graph.Value]Spec{}, first: map[*graph.Value]Spec{}, flexible: map[*graph.Value]bool{}, wanted: map[string]bool{}, Decision: map[*graph.Eqn]Decision{}}
}

// equations places the equations, once the inputs are placed. Values that can be made in
// any placement are made for each of their uses.
func (a *Assignment) equations() error {
	a.passes, a.derived = usesOf(a.Program).passes(a.Program), derived(a.Program)
	for _, e := range a.Program.Eqns {
		if err := a.stopped(); err != nil {
			return err
		}
		if err := a.place(e); err != nil {
			return err
		}
	}
	return nil
}

// finish places the results: the first ones according to carried, which is empty for
// programs that are no bodies, and the others as they are. Pending sums are completed,
// except those that an equation leaves pending (see Leaver).
func (a *Assignment) finish(carried []Spec) error {
	for i, v := range a.Program.Out {
		s := a.Spec[v]
		pos := graph.Pos{}
		leaves := false
		if v.Def != nil {
			pos = v.Def.Pos
			_, leaves = v.Def.Prim.(Leaver)
			leaves = leaves || a.leaves[v.Def]
		}
		if !leaves {
			s = s.Resolved()
		}
		if s.Ragged != nil {
			return &graph.Error{Pos: pos, Err: fmt.Errorf("result %d of %s, %s, is in expert order and its number of rows is known only to the run; return ep_combine of it", i, a.Program.Name, s.Format(v.Type))}
		}
		if i < len(carried) {
			s = carried[i]
		}
		if a.flexible[v] {
			if err := a.want(a.Context(v.Def), v, s); err != nil {
				return err
			}
		} else if err := Free(a.Spec[v], s, v.Type); err != nil {
			return &graph.Error{Pos: pos, Err: fmt.Errorf("result %d of %s: %w", i, a.Program.Name, err)}
		}
		a.Out = append(a.Out, s)
	}
	return nil
}

func (a *Assignment) place(e *graph.Eqn) error {
	c := a.Context(e)
	dec, err := decide(c)
	if err != nil {
		return a.fail(c, err)
	}
	if len(dec.In) != len(e.In) || len(dec.Out) != len(e.Out) {
		return a.fail(c, fmt.Errorf("the placement rule answered for %d arguments and %d results, want %d and %d", len(dec.In), len(dec.Out), len(e.In), len(e.Out)))
	}
	for i, s := range dec.Out {
		if dec.Out[i], err = s.Check(a.Mesh, e.Out[i].Type); err != nil {
			return a.fail(c, err)
		}
		a.Spec[e.Out[i]] = dec.Out[i]
	}
	if IsFlexible(e.Prim) || a.follows(c, dec) || a.behind(e) {
		a.flexible[e.Out[0]] = true
		return nil // the equations using it place its arguments
	}
	for i, v := range read(e) {
		if err := a.want(c, v, dec.In[i]); err != nil {
			return err
		}
	}
	a.Decision[e] = dec
	return nil
}

// want checks that v is available in placement to, moving the arguments of c's equation
// if allowed. It follows flexible definitions.
func (a *Assignment) want(c *Context, v *graph.Value, to Spec) error {
	if _, err := to.Check(a.Mesh, v.Type); err != nil {
		return a.fail(c, err) // the rule splits v like another argument of another size
	}
	if a.flexible[v] {
		if !IsZero(v) {
			to = to.Resolved() // as a summand, the first rank holds it
		}
		key := fmt.Sprintf("%p %s %p %t", v, to.Format(v.Type), to.Ragged, c.moves)
		if a.wanted[key] {
			return nil
		}
		a.wanted[key] = true
		dc := a.Context(v.Def)
		dc.moves = c.moves
		dec, err := ShardAs(dc, to)
		if err != nil {
			return a.fail(c, err)
		}
		if whole := dec.Out[0]; !whole.Equal(to) {
			return a.want(c, v, whole) // ranks take their parts
		}
		for i, u := range read(v.Def) {
			if err := a.want(dc, u, dec.In[i]); err != nil {
				return err
			}
		}
		if _, ok := a.first[v]; !ok {
			a.first[v] = to
		}
		return nil
	}
	check := Free
	if c.moves {
		check = sameRows
	}
	if err := check(a.Spec[v], to, v.Type); err != nil {
		return a.fail(c, a.since(v, err))
	}
	return nil
}

// since adds the origin of the split to an error about the axes splitting v.
func (a *Assignment) since(v *graph.Value, err error) error {
	var split *splitError
	if !errors.As(err, &split) || v.Def == nil {
		return err
	}
	text, axes := "", strings.Join(split.axes, ".")
	for v.Def != nil {
		e := v.Def
		from := slices.IndexFunc(read(e), func(u *graph.Value) bool { return holds(a.Spec[u], split.axes) })
		if from < 0 {
			return fmt.Errorf("%w; the split over %s comes from %s at %s%s", err, axes, e.Prim.Name(), e.Pos, text)
		}
		if text == "" && slices.ContainsFunc(read(e), func(u *graph.Value) bool { return u.Type.Equal(v.Type) && !holds(a.Spec[u], split.axes) }) {
			text = fmt.Sprintf(", at %s, where %s takes parts of its other argument", e.Pos, e.Prim.Name())
		}
		v = e.In[from]
	}
	if v.Name == "" {
		return err
	}
	return fmt.Errorf("%w; the split over %s comes from %s %s%s", err, axes, graph.Shown(v.Name), a.Spec[v].Format(v.Type), text)
}

func (a *Assignment) fail(c *Context, err error) error {
	if inner, ok := err.(*graph.Error); ok { // about an equation of a loop's body
		return inner
	}
	if split := (*splitError)(nil); errors.As(err, &split) && split == err && split.arg >= 0 {
		err = a.since(c.Eqn.In[split.arg], err)
	}
	return &graph.Error{Pos: c.Eqn.Pos, Prim: c.Eqn.Prim.Name(), Args: c.Args(), Err: err}
}

// follows reports whether c's equation combines, element by element, or rearranges values
// that can be made in any placement. Its result can then be made in any placement as
// well. A reshape of a batch that must move rows is decided otherwise than by the
// rearrangement, and is made once.
func (a *Assignment) follows(c *Context, dec Decision) bool {
	for _, v := range c.Eqn.In {
		if !a.flexible[v] {
			return false
		}
	}
	if p, ok := c.Eqn.Prim.(Rearranging); ok {
		same, err := c.rearranged(p.Factors(c, dec.Out[0].Ragged != nil), dec.Out[0])
		return err == nil && same.Out[0].Equal(dec.Out[0].Resolved())
	}
	return isPointwise(c.Eqn.Prim)
}

// read returns the arguments of e that must have the placements of the decision: all,
// except those for which a barrier only waits.
func read(e *graph.Eqn) []*graph.Value {
	if _, ok := e.Prim.(graph.BarrierOp); ok {
		return e.In[:1]
	}
	return e.In
}

// behind reports whether e is a barrier with a value that can be made in any placement.
func (a *Assignment) behind(e *graph.Eqn) bool {
	_, ok := e.Prim.(graph.BarrierOp)
	return ok && a.flexible[e.In[0]]
}

// Flexible reports whether v can be made in any placement without moving data, like a
// constant. Each use of v then makes its own copy.
func (a *Assignment) Flexible(v *graph.Value) bool { return a.flexible[v] }

// Context returns the context for placing e.
func (a *Assignment) Context(e *graph.Eqn) *Context {
	c := &Context{Mesh: a.Mesh, Eqn: e, asg: a, moves: a.moves || a.derived[e] || isPlaceLike(e)}
	for _, v := range e.In {
		c.In = append(c.In, a.Spec[v])
	}
	return c
}

// Format prints the program with the placement of every value. A flexible result
// is shown in the placement of its first use.
func (a *Assignment) Format() string { return a.Program.Print(a.printing()) }

func (a *Assignment) printing() graph.PrintOptions {
	return graph.PrintOptions{
		Type: func(v *graph.Value) string {
			if s, ok := a.first[v]; ok {
				return s.Format(v.Type)
			}
			return a.Spec[v].Format(v.Type)
		},
		Body: func(e *graph.Eqn) (*graph.Program, graph.PrintOptions) {
			body := a.Decision[e].Body
			return body.Program, body.printing()
		},
	}
}

// decide asks the rule of the context's primitive. Structural primitives of package graph
// have their rules here.
func decide(c *Context) (Decision, error) {
	switch p := c.Eqn.Prim.(type) {
	case graph.FullOp:
		return Decision{Out: []Spec{{}}}, nil
	case graph.AddAnyOp:
		return c.Place(Elementwise(c.Type(0), len(c.In), 1, LinearTogether))
	case graph.PlaceLikeOp:
		if c.Flexible(0) {
			out := c.In[1].Resolved()
			return Decision{In: []Spec{out, c.In[1]}, Out: []Spec{out}}, nil
		}
		if c.In[0].Ragged != nil && c.In[1].Ragged == nil && c.Flexible(1) {
			return Decision{In: c.In, Out: []Spec{c.rowsLike(c.In[0], c.In[1])}}, nil
		}
		if !c.In[0].Ragged.same(c.In[1].Ragged) || c.In[0].Ragged != nil && !slices.Equal(c.In[0].At(0), c.In[1].At(0)) {
			return Decision{}, Free(c.In[0], c.In[1], c.Type(0))
		}
		out := c.In[1].Resolved()
		split := out.Axes()
		free := slices.DeleteFunc(slices.Clone(c.In[0].Pending), func(a string) bool { return slices.Contains(split, a) })
		if c.asg.leaves[c.Eqn] || c.asg.passes[c.Eqn] && len(free) == len(c.In[0].Pending) {
			out.Pending = free
		}
		return Decision{In: c.In, Out: []Spec{out}}, nil
	case graph.ScanOp:
		return c.loop(p)
	case graph.BarrierOp:
		return Decision{In: c.In, Out: []Spec{c.In[0]}}, nil
	case graph.CustomOp, graph.RematOp:
		return Decision{}, fmt.Errorf("a call is placed after graph.Inline")
	case Rule:
		var dec Decision
		err := graph.Guard("Shard", func() (err error) {
			dec, err = p.Shard(c)
			return err
		})
		return dec, err
	default:
		return Decision{}, fmt.Errorf("the primitive has no placement rule")
	}
}

// rowsLike returns the placement of rows in expert order with the other dimensions of a
// constant, which has rows in any order.
func (c *Context) rowsLike(rows, constant Spec) Spec {
	out := Spec{Dims: slices.Clone(rows.Dims), Ragged: rows.Ragged}
	for d := 1; d < len(out.Dims); d++ {
		out.Dims[d] = slices.DeleteFunc(slices.Clone(constant.At(d)), func(a string) bool { return Over(rows.At(0), a) })
	}
	return out
}

// isPointwise reports whether p is a Pointwise rule, or the sum of cotangents.
func isPointwise(p graph.Primitive) bool {
	switch p.(type) {
	case graph.AddAnyOp, Pointwise:
		return true
	}
	return false
}

// IsFlexible reports whether p's result can be made in any placement, for any arguments.
func IsFlexible(p graph.Primitive) bool {
	switch p.(type) {
	case graph.FullOp, Flexible:
		return true
	}
	return false
}

// ShardAs asks the context's flexible primitive for its result in placement out. The
// decision may have a result with whole dimensions that out splits; ranks then take their
// parts.
func ShardAs(c *Context, out Spec) (Decision, error) {
	switch p := c.Eqn.Prim.(type) {
	case graph.FullOp:
		return Decision{Out: []Spec{out}}, nil
	case graph.BarrierOp:
		return Decision{In: []Spec{out}, Out: []Spec{out}}, nil
	case Flexible:
		return p.ShardAs(c, out)
	case Rearranging:
		return c.rearranged(p.Factors(c, out.Ragged != nil), out)
	}
	if isPointwise(c.Eqn.Prim) {
		dec := Decision{Out: []Spec{out}}
		for i := range c.In {
			in := out
			if c.Type(i).Rank() == 0 {
				in = Spec{} // one number for all elements
			}
			dec.In = append(dec.In, in)
		}
		return dec, nil
	}
	return Decision{}, fmt.Errorf("%s cannot be made in any placement", c.Eqn.Prim.Name())
}

// Union returns the axes of both lists in the mesh's order.
func (m Mesh) Union(a, b []string) []string { return m.ordered(append(slices.Clone(a), b...)) }
