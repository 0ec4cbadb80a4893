package gomoe

import (
	"fmt"
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
	Wire     graph.DType `json:"-"`
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
