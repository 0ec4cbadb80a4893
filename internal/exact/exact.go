package exact

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// axes returns the mesh axes that may split the batch and the experts. Along others the
// bits depend on the number of ranks.
func axes() []string { return []string{"dp", "ep"} }

// Program returns p, without calls, with sums in the given number of blocks, a power of
// two, for inputs placed according to place (see sharding.Propagate). It is the same
// program for every mesh splitting the batch over at most as many ranks as blocks, with
// whole blocks on each rank (see sharding.Mesh). Errors name the line of an equation
// without such a form.
func Program(ctx context.Context, p *graph.Program, m sharding.Mesh, place map[string]sharding.Spec, blocks int) (*graph.Program, error) {
	if blocks < 1 || blocks&(blocks-1) != 0 {
		return nil, fmt.Errorf("exact: %s with %d blocks, want a power of two, at least the number of ranks that split the batch, such as 8", p.Name, blocks)
	}
	most, err := spread(m)
	if err != nil {
		return nil, fmt.Errorf("exact: %s: %w", p.Name, err)
	}
	split := false
	for name, s := range place {
		s = s.On(most)
		if len(s.Pending) > 0 {
			return nil, fmt.Errorf("exact: %s: input %s is a pending sum, whose summands depend on the mesh; place the sum", p.Name, name)
		}
		split = split || len(s.Axes()) > 0
	}
	if !split {
		return nil, fmt.Errorf("exact: %s: no input is split over %s; place the batch on every mesh as on the largest one, as in x=%s", p.Name, strings.Join(axes(), " or "), strings.Join(axes(), "."))
	}
	a, err := sharding.Propagate(ctx, p, most.Dividing(), place)
	if err != nil {
		return nil, fmt.Errorf("exact: what %s sums over the batch follows from the axes %s of its placements, which are the same on every mesh, also where the mesh, here %q, lacks an axis; with both axes it cannot be placed: %w",
			p.Name, strings.Join(axes(), " and "), m, err)
	}
	return rewrite(a, blocks, false)
}

// spread returns the mesh of two ranks along each of the axes, in the order of m.
func spread(m sharding.Mesh) (sharding.Mesh, error) {
	var most sharding.Mesh
	for _, a := range m.Axes {
		switch {
		case slices.Contains(axes(), a.Name):
			most.Axes = append(most.Axes, sharding.Axis{Name: a.Name, Size: 2})
		case a.Size > 1:
			return most, fmt.Errorf("the mesh %q splits over %s, and sums along that axis depend on its size; only %s have the same bits on every mesh: leave %s out, or exact", m, a.Name, strings.Join(axes(), " and "), a.Name)
		}
	}
	for _, name := range axes() {
		if most.Size(name) == 0 {
			most.Axes = append(most.Axes, sharding.Axis{Name: name, Size: 2})
		}
	}
	return most, nil
}

// rewriter makes the new program from a placed one.
type rewriter struct {
	*sharding.Assignment
	blocks int
	inside bool // of a loop
	uses   map[*graph.Value][]*graph.Eqn
	err    error
}

func rewrite(a *sharding.Assignment, blocks int, inside bool) (*graph.Program, error) {
	r := &rewriter{Assignment: a, blocks: blocks, inside: inside, uses: map[*graph.Value][]*graph.Eqn{}}
	for _, e := range a.Program.Eqns {
		for _, v := range e.In {
			r.uses[v] = append(r.uses[v], e)
		}
	}
	for _, v := range a.Program.Out {
		r.uses[v] = append(r.uses[v], nil)
	}
	p, err := graph.Trace(a.Program.Name, func(t *graph.Tracer) []*graph.Value {
		env := make(map[*graph.Value]*graph.Value, len(a.Program.In)+len(a.Program.Eqns))
		for _, v := range a.Program.In {
			env[v] = t.Input(v.Name, v.Type.DType, v.Type.Shape...)
		}
		for _, e := range a.Program.Eqns {
			in := make([]*graph.Value, len(e.In))
			for i, v := range e.In {
				in[i] = env[v]
			}
			t.At(e.Pos, func() {
				for i, v := range r.equation(t, e, in) {
					if v.Name == "" {
						v.Name = e.Out[i].Name
					}
					env[e.Out[i]] = v
				}
			})
		}
		out := make([]*graph.Value, len(a.Program.Out))
		for i, v := range a.Program.Out {
			out[i] = env[v]
		}
		return out
	})
	if r.err != nil {
		return nil, r.err
	}
	return p, err
}

// equation returns the replacements for the results of e, with the new arguments in.
func (r *rewriter) equation(t *graph.Tracer, e *graph.Eqn, in []*graph.Value) []*graph.Value {
	fail := func(err error) []*graph.Value {
		if r.err == nil {
			r.err = &graph.Error{Pos: e.Pos, Prim: e.Prim.Name(), Args: r.Context(e).Args(), Err: fmt.Errorf("exact: %w", err)}
		}
		return t.Apply(e.Prim, in...)
	}
	dec, placed := r.Decision[e]
	if s, ok := e.Prim.(graph.ScanOp); ok && placed {
		body, err := rewrite(dec.Body, r.blocks, true)
		if err != nil {
			if r.err == nil {
				r.err = err
			}
			return t.Apply(e.Prim, in...)
		}
		s.Body = body
		return t.Apply(s, in...)
	}
	if err := travels(e.Prim); err != nil {
		return fail(err)
	}
	if !placed || !leaves(dec) || !e.Out[0].Type.DType.IsFloat() {
		return t.Apply(e.Prim, in...)
	}
	rule, ok := e.Prim.(sharding.Blocked)
	if !ok {
		return fail(fmt.Errorf("a sum over %s is left pending here, which has no form with the same bits on every mesh; gather the argument before with sharding_constraint", strings.Join(dec.Out[0].Pending, " and ")))
	}
	q, err := rule.InBlocks(e, dec.In, r.blocks)
	if err != nil {
		return fail(err)
	}
	if q == nil {
		return t.Apply(e.Prim, in...)
	}
	// Summands of 16 bits would be rounded before being added.
	for i, v := range in {
		if narrow(v) {
			in[i] = primitives.ConvertElementType(v, graph.F32)
		}
	}
	out := t.Apply(q, in...)
	for i, v := range out {
		was := e.Out[i]
		if narrow(was) || !r.placedNext(was) {
			out[i] = primitives.ShardingConstraint(v, entries(dec.Out[i])...)
		}
		if narrow(was) {
			out[i] = primitives.ConvertElementType(out[i], was.Type.DType)
		}
	}
	return out
}

// leaves reports whether a sum is pending that was not pending in an argument.
func leaves(dec sharding.Decision) bool {
	for _, out := range dec.Out {
		for _, axis := range out.Pending {
			if !slices.ContainsFunc(dec.In, func(s sharding.Spec) bool { return slices.Contains(s.Pending, axis) }) {
				return true
			}
		}
	}
	return false
}

// placedNext reports whether v is only placed, once, which completes its sum. In loops a
// sum could stay pending until the loop has ended.
func (r *rewriter) placedNext(v *graph.Value) bool {
	if r.inside || len(r.uses[v]) != 1 || r.uses[v][0] == nil {
		return false
	}
	switch p := r.uses[v][0].Prim; primitives.NameOf(p) {
	case "place_like":
		return r.uses[v][0].In[0] == v
	case "sharding_constraint":
		to, err := graph.ParamsOf[struct{ Spec string }](p)
		return err == nil && !strings.Contains(to.Spec, "{")
	}
	return false
}

func narrow(v *graph.Value) bool {
	return v.Type.DType == graph.BF16 || v.Type.DType == graph.F16
}

// entries returns the placement without pending sums, in the form of sharding_constraint.
func entries(s sharding.Spec) []string {
	var list []string
	for _, d := range s.Dims {
		list = append(list, strings.Join(d, "."))
	}
	return list
}

// travels returns an error if the data exchanged by a primitive depends on the mesh.
func travels(p graph.Primitive) error {
	var home ep.Exchange
	var wire graph.DType
	var receive int
	switch p := p.(type) {
	case primitives.PrepareOp:
		home, wire, receive = p.Exchange, p.Wire, p.Receive
	case primitives.DispatchOp:
		home, wire, receive = p.Exchange, p.Wire, p.Receive
	}
	switch {
	case home != ep.Rows:
		return fmt.Errorf("exchange=%q adds the rows of a token by rank; bring them home as rows", string(home))
	case wire != graph.NoDType:
		return fmt.Errorf("wire=%s rounds the rows that travel, which depend on the mesh; leave it out", wire)
	case receive > 0:
		return fmt.Errorf("receive=%d drops what depends on the mesh; limit experts by capacity instead", receive)
	}
	return nil
}
