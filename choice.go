package gomoe

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// Choice is one way to run the expert layers of a program. The zero Choice returns one
// row per chosen expert in a single exchange, has no limit on received rows, and keeps
// everything for the gradient.
type Choice struct {
	// Exchange, Receive and Wire are the fields of primitives.PrepareOp.
	Exchange ep.Exchange `json:"exchange"`
	Receive  int         `json:"receive,omitempty"`
	Wire     graph.DType `json:"wire,omitempty"`
	Blocks   int         `json:"blocks,omitempty"` // rows per block, as in primitives.InBlocks; 0 is no blocks
	Remat    Recomputed  `json:"remat,omitempty"`
}

// Recomputed names the values of an expert layer that its gradient recomputes.
type Recomputed string

const (
	RecomputeNothing Recomputed = ""
	RecomputeAll     Recomputed = "all"
	// These two keep the values selected by primitives.KeepProducts and
	// primitives.KeepExchanges.
	RecomputeAllButProducts  Recomputed = "products"
	RecomputeAllButExchanges Recomputed = "exchanges"
)

// keep returns the policy of vjp.RematKeep.
func (r Recomputed) keep() (vjp.Keep, error) {
	switch r {
	case RecomputeAll:
		return nil, nil
	case RecomputeAllButProducts:
		return primitives.KeepProducts, nil
	case RecomputeAllButExchanges:
		return primitives.KeepExchanges, nil
	}
	return nil, fmt.Errorf("remat %q, want %s, %s or %s", string(r), RecomputeAll, RecomputeAllButProducts, RecomputeAllButExchanges)
}

// String prints the exchange and every parameter differing from the zero Choice:
// exchange=sum blocks=4096.
func (c Choice) String() string {
	s := []string{"exchange=" + c.Exchange.String()}
	if c.Blocks > 0 {
		s = append(s, fmt.Sprintf("blocks=%d", c.Blocks))
	}
	if c.Receive > 0 {
		s = append(s, fmt.Sprintf("receive=%d", c.Receive))
	}
	if c.Wire != graph.NoDType {
		s = append(s, "wire="+c.Wire.String())
	}
	if c.Remat != RecomputeNothing {
		s = append(s, "remat="+string(c.Remat))
	}
	return strings.Join(s, " ")
}

// of returns op with the parameters of c.
func (c Choice) of(op primitives.DispatchOp) primitives.DispatchOp {
	op.Exchange, op.Receive, op.Wire = c.Exchange, c.Receive, c.Wire
	return op
}

// Program returns p with all of its expert layers run according to c, as a model built
// with these parameters would be. With Blocks or Remat it must be called before
// differentiation, and every layer must dispatch its rows once, combine them once, and
// use them nowhere else. A layer of another form is an error at its line.
func (c Choice) Program(p *graph.Program) (*graph.Program, error) {
	if err := graph.Check(p); err != nil {
		return nil, err
	}
	return c.program(p)
}

func (c Choice) program(p *graph.Program) (*graph.Program, error) {
	r := &chooser{Choice: c, parts: map[*graph.Eqn]*expertPart{}, inside: map[*graph.Eqn]bool{}}
	return graph.Trace(p.Name, func(t *graph.Tracer) []*graph.Value {
		if c.Blocks > 0 || c.Remat != RecomputeNothing {
			r.find(p)
		}
		env := values{}
		for _, v := range p.In {
			env[v] = t.Input(v.Name, v.Type.DType, v.Type.Shape...)
		}
		r.prepared, r.copies = map[*graph.Value]primitives.Prepared{}, map[*graph.Value]int{}
		for _, e := range p.Eqns {
			if _, ok := e.Prim.(primitives.CopiesOp); ok {
				r.copies[e.In[0].Origin()] = e.In[1].Type.Len()
			}
		}
		for _, e := range p.Eqns {
			if r.inside[e] {
				continue // added with the layer's combine
			}
			t.At(e.Pos, func() {
				out, err := r.equation(t, e, env)
				if err != nil {
					graph.FailAt(e, err)
				}
				env.set(e, out)
			})
		}
		return env.of(p.Out)
	})
}

// values maps the values of a program to their replacements.
type values map[*graph.Value]*graph.Value

func (v values) of(list []*graph.Value) []*graph.Value {
	out := make([]*graph.Value, len(list))
	for i, x := range list {
		out[i] = v[x]
	}
	return out
}

// set records out, named like the results of e, as their replacements.
func (v values) set(e *graph.Eqn, out []*graph.Value) {
	for i, x := range out {
		if x.Name == "" {
			x.Name = e.Out[i].Name
		}
		v[e.Out[i]] = x
	}
}

// chooser rewrites a program according to a Choice. Calls and loop bodies get a chooser
// of their own.
type chooser struct {
	Choice
	parts    map[*graph.Eqn]*expertPart // by the combine
	inside   map[*graph.Eqn]bool        // the equations of the parts, except their combines
	prepared map[*graph.Value]primitives.Prepared
	copies   map[*graph.Value]int // by routing: the number of replicas sharing its pairs
}

// equation returns the replacements for the results of e.
func (r *chooser) equation(t *graph.Tracer, e *graph.Eqn, env values) ([]*graph.Value, error) {
	if part := r.parts[e]; part != nil {
		return r.part(t, part, env)
	}
	in := env.of(e.In)
	switch op := e.Prim.(type) {
	case primitives.PrepareOp:
		op.Exchange, op.Receive, op.Wire = r.Exchange, r.Receive, r.Wire
		op.Copies = r.copies[e.Out[0]]
		if op.Receive == 0 && op.Capacity == 0 {
			op.Trap = false
		}
		x := primitives.Prepare(op, in[0])
		r.prepared[e.Out[0]] = x
		return []*graph.Value{x.Value, x.Dropped, x.Counts, x.Padded, x.Demand}, nil
	case primitives.CopiesOp:
		if from, ok := r.prepared[e.In[0].Origin()]; ok {
			x := primitives.Copies(from, in[1])
			r.prepared[e.Out[0]] = x
			return []*graph.Value{x.Value, x.Counts, x.Padded, x.Dropped}[:len(e.Out)], nil
		}
		op.Exchange, op.Receive, op.Wire = r.Exchange, r.Receive, r.Wire
		return t.Apply(op, in...), nil
	case primitives.DispatchOp:
		return t.Apply(r.of(op), in...), nil
	case primitives.CombineOp:
		return t.Apply(primitives.CombineOp(r.of(primitives.DispatchOp(op))), in...), nil
	}
	prim, err := r.nested(e.Prim)
	if err != nil {
		return nil, err
	}
	return t.Apply(prim, in...), nil
}

// nested returns p with the Choice applied to the programs of calls and loops.
func (r *chooser) nested(p graph.Primitive) (graph.Primitive, error) {
	var err error
	switch op := p.(type) {
	case graph.ScanOp:
		op.Body, err = r.program(op.Body)
		return op, err
	case graph.RematOp:
		op.Fn, err = r.program(op.Fn)
		return op, err
	case graph.CustomOp:
		if op.Fn, err = r.program(op.Fn); err == nil {
			op.VJP, err = r.program(op.VJP)
		}
		return op, err
	}
	return p, nil
}

// expertPart is the part of a program computing on rows in expert order, from the
// dispatch to the combine of one routing.
type expertPart struct {
	dispatch, combine *graph.Eqn
	between           []*graph.Eqn // in program order
}

// find finds the expert layers of p, not entering calls and loops. A layer of another
// form stops the trace.
func (r *chooser) find(p *graph.Program) {
	type layer struct{ dispatch, combine []*graph.Eqn }
	layers, order := map[*graph.Value]*layer{}, []*graph.Value{}
	at := func(e *graph.Eqn) *layer {
		routing := e.In[len(e.In)-1].Origin()
		if layers[routing] == nil {
			layers[routing] = &layer{}
			order = append(order, routing)
		}
		return layers[routing]
	}
	for _, e := range p.Eqns {
		switch e.Prim.(type) {
		case primitives.DispatchOp:
			at(e).dispatch = append(at(e).dispatch, e)
		case primitives.CombineOp:
			at(e).combine = append(at(e).combine, e)
		}
	}
	for _, routing := range order {
		l := layers[routing]
		if len(l.dispatch) != 1 || len(l.combine) != 1 {
			e := slices.Concat(l.dispatch, l.combine)[0]
			graph.FailAt(e, fmt.Errorf("%s: the rows of this routing are dispatched %d times and combined %d times, as in a gradient; choose blocks and remat before the gradient is taken", r, len(l.dispatch), len(l.combine)))
		}
		part, err := r.between(p, l.dispatch[0], l.combine[0])
		if err != nil {
			graph.FailAt(l.dispatch[0], fmt.Errorf("%s: %w", r, err))
		}
		r.parts[part.combine] = part
	}
}

// between returns the layer from dispatch to combine. Values with a row per pair that do
// not depend on the rows, such as ones, are computed in the layer too.
func (r *chooser) between(p *graph.Program, dispatch, combine *graph.Eqn) (*expertPart, error) {
	part := &expertPart{dispatch: dispatch, combine: combine}
	rows := dispatch.Out[0].Dim(0)
	depend, again := map[*graph.Eqn]bool{dispatch: true}, map[*graph.Eqn]bool{}
	var long func(v *graph.Value)
	long = func(v *graph.Value) {
		if e := v.Def; e != nil && !depend[e] && !again[e] && v.Rank() > 0 && v.Dim(0) == rows && !v.Type.DType.IsInt() {
			again[e] = true
			for _, x := range e.In {
				long(x)
			}
		}
	}
	for _, e := range p.Eqns {
		if e == combine || slices.ContainsFunc(e.In, func(v *graph.Value) bool { return v.Def != nil && depend[v.Def] }) {
			if e != combine {
				depend[e] = true
			} else if len(e.Out) > 1 {
				return nil, errors.New("the weights of rows come home, too")
			}
			for _, v := range e.In {
				long(v)
			}
		}
	}
	escapes := slices.ContainsFunc(p.Out, func(v *graph.Value) bool { return v.Def != nil && depend[v.Def] })
	for _, e := range p.Eqns {
		uses := slices.ContainsFunc(e.In, func(v *graph.Value) bool { return v.Def != nil && depend[v.Def] })
		escapes = escapes || uses && e != combine && !depend[e]
		if (depend[e] || again[e]) && e != dispatch {
			part.between = append(part.between, e)
		}
		r.inside[e] = r.inside[e] || depend[e]
	}
	if escapes {
		return nil, errors.New("rows in the order of the experts are a result")
	}
	return part, nil
}

// part adds the layer before its combine, and returns the combine's result.
func (r *chooser) part(t *graph.Tracer, p *expertPart, env values) ([]*graph.Value, error) {
	routing, args := p.dispatch.In[len(p.dispatch.In)-1].Origin(), env.of(p.dispatch.In[:len(p.dispatch.In)-1])
	plain := func(routed *graph.Value, args []*graph.Value) *graph.Value { return r.layer(t, p, env, routed, args) }
	layer := plain
	if r.Remat != RecomputeNothing {
		keep, err := r.Remat.keep()
		if err != nil {
			return nil, err
		}
		layer = func(routed *graph.Value, args []*graph.Value) *graph.Value {
			return vjp.RematKeep("experts", keep, func(_ *graph.Tracer, x []*graph.Value) []*graph.Value {
				return []*graph.Value{plain(x[0], x[1:])}
			}, append([]*graph.Value{routed}, args...)...)[0]
		}
	}
	if r.Blocks == 0 {
		return []*graph.Value{layer(env[routing], args)}, nil
	}
	from, copies := routing, (*graph.Value)(nil)
	if from.Def != nil {
		if _, ok := from.Def.Prim.(primitives.CopiesOp); ok {
			from, copies = from.Def.In[0].Origin(), env[from.Def.In[1]]
		}
	}
	prepared, ok := r.prepared[from]
	if !ok {
		return nil, fmt.Errorf("%s: the routing is not made by ep_prepare in the same program", r)
	}
	if r.Receive > 0 && copies != nil {
		return nil, fmt.Errorf("%s: receive with copies is applied to all blocks together", r)
	}
	y := primitives.InBlocks(r.Blocks, prepared, args, func(b primitives.Prepared, args []*graph.Value) *graph.Value {
		if copies != nil {
			b = primitives.Copies(b, copies)
		}
		return layer(b.Value, args)
	})
	return []*graph.Value{y}, nil
}

// layer adds the layer's equations for a given set of tokens, which may be fewer than the
// program's.
func (r *chooser) layer(t *graph.Tracer, p *expertPart, env values, routed *graph.Value, args []*graph.Value) *graph.Value {
	was, own := p.dispatch.Out[0].Dim(0), values{}
	now, routing := 0, p.dispatch.In[len(p.dispatch.In)-1].Origin()
	apply := func(e *graph.Eqn, prim graph.Primitive, in []*graph.Value) (out []*graph.Value) {
		b := t.Innermost()
		b.At(e.Pos, func() { out = b.Apply(prim, in...) })
		own.set(e, out)
		return out
	}
	arg := func(v *graph.Value) *graph.Value {
		if x, ok := own[v]; ok {
			return x
		}
		if v.Origin() == routing {
			return routed
		}
		return env[v]
	}
	op := p.dispatch.Prim.(primitives.DispatchOp)
	now = apply(p.dispatch, r.of(op), append(slices.Clone(args), routed))[0].Dim(0)
	for _, e := range p.between {
		in := make([]*graph.Value, len(e.In))
		for i, v := range e.In {
			in[i] = arg(v)
		}
		prim, err := rowsOf(e.Prim, was, now)
		if err != nil {
			graph.FailAt(e, err)
		}
		apply(e, prim, in)
	}
	in := make([]*graph.Value, len(p.combine.In))
	for i, v := range p.combine.In {
		in[i] = arg(v)
	}
	return apply(p.combine, primitives.CombineOp(r.of(primitives.DispatchOp(p.combine.Prim.(primitives.CombineOp)))), in)[0]
}

// rowsOf returns p with `now` rows in its shape, if that has `was` rows.
func rowsOf(p graph.Primitive, was, now int) (graph.Primitive, error) {
	shape := func(s []int) []int {
		if len(s) > 0 && s[0] == was {
			s = slices.Clone(s)
			s[0] = now
		}
		return s
	}
	switch primitives.NameOf(p) {
	case "full", "broadcast_in_dim", "reshape":
		of, err := graph.ParamsOf[struct{ Shape []int }](p)
		if err != nil {
			return nil, err
		}
		of.Shape = shape(of.Shape)
		return graph.WithParams(p, of)
	case "slice": // a slice of columns
		of, err := graph.ParamsOf[struct{ LimitIndices []int }](p)
		if err != nil {
			return nil, err
		}
		of.LimitIndices = shape(of.LimitIndices)
		return graph.WithParams(p, of)
	}
	return p, nil
}
