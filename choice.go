package gomoe

import (
	"fmt"
	"strings"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// Choice is one way to run the expert layers of a program. The zero Choice brings home a row
// per choice, all at once, without a limit, and keeps everything for the gradient.
type Choice struct {
	// Exchange, Receive and Wire are those of primitives.PrepareOp.
	Exchange ep.Exchange `json:"exchange"`
	Receive  int         `json:"receive,omitempty"`
	Wire     graph.DType `json:"-"`
	Blocks   int         `json:"blocks,omitempty"` // the rows that primitives.InBlocks takes; 0 is no blocks
	Remat    Recomputed  `json:"remat,omitempty"`
}

// Recomputed says what the gradient of an expert layer computes again.
type Recomputed string

const (
	RecomputeNothing Recomputed = ""
	RecomputeAll     Recomputed = "all"
	// The other two keep what primitives.KeepProducts and primitives.KeepExchanges keep.
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

// String prints what differs from the zero Choice, and the exchange: exchange=sum blocks=4096.
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

// of returns op with the choice's parameters.
func (c Choice) of(op primitives.DispatchOp) primitives.DispatchOp {
	op.Exchange, op.Receive, op.Wire = c.Exchange, c.Receive, c.Wire
	return op
}

// Program returns p with all of its expert layers run as c says: what a model that is built with
// these parameters is. With Blocks or Remat, every layer must be there as it is before a
// gradient is taken: rows that are dispatched once, and combined once, and do not leave the
// layer in between. It is an error at the layer's line if one is not.
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
				continue // it comes with the layer's combine
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

// values are the new values that stand for those of a program.
type values map[*graph.Value]*graph.Value

func (v values) of(list []*graph.Value) []*graph.Value {
	out := make([]*graph.Value, len(list))
	for i, x := range list {
		out[i] = v[x]
	}
	return out
}

// set gives the results of e their new values, with their names.
func (v values) set(e *graph.Eqn, out []*graph.Value) {
	for i, x := range out {
		if x.Name == "" {
			x.Name = e.Out[i].Name
		}
		v[e.Out[i]] = x
	}
}

// chooser makes the new program of one that is no call or loop of another.
type chooser struct {
	Choice
	parts    map[*graph.Eqn]*expertPart // by the combine
	inside   map[*graph.Eqn]bool        // the equations of the parts but for their combines
	prepared map[*graph.Value]primitives.Prepared
	copies   map[*graph.Value]int // of a routing: the copies among which its pairs are spread
}

// equation returns what stands for the results of e.
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

// nested returns p with the choice in the programs of calls and loops.
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
