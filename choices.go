package gomoe

import (
	"context"
	"fmt"
	"math"
	goruntime "runtime"
	"slices"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// Taken holds the memory and traffic of one rank for a step with a Choice. Sizes are in
// bytes unless stated otherwise.
type Taken struct {
	Choice
	Name  string `json:"choice"` // as Choice.String prints it
	Wire  string `json:"wire,omitempty"`
	Total int64  `json:"total"`
	Arena int64  `json:"arena"`
	Peak  int64  `json:"peak"` // peak use, inputs and results included
	// Arrive is the size of the largest receive buffer among the layers, and Rows its
	// capacity in rows. Pairs is the largest capacity of an array of rows in expert
	// order.
	Arrive int64 `json:"arrive"`
	Rows   int   `json:"rows"`
	Pairs  int   `json:"pairs"`
	// Exchanged is the largest contribution of a rank to the collectives of a step.
	Exchanged int64 `json:"exchanged"`
	// Changes describes how the results of the forward pass may change; "" means no bit
	// does. Gradients of weights are summed block by block, in order.
	Changes string `json:"changes,omitempty"`
	// Err is the reason why there is no such plan; all sizes are then 0.
	Err string `json:"error,omitempty"`
}

// Choices compiles p for cfg with different ways to run its expert layers and returns the
// memory and traffic of each, without running any. The first is p with its own
// parameters. The others split both exchanges into blocks of several sizes, limit the
// rows that a rank can receive, recompute values in the gradient, or send other element
// types. With wrt, the plans are for the gradient of p's first result with respect to
// these inputs. It is an error if p has no expert layers, or does not compile as it is.
// If ctx ends, Choices returns its cause.
func Choices(ctx context.Context, p *graph.Program, cfg Config, wrt ...string) ([]Taken, error) {
	a, err := Place(ctx, p, cfg)
	if err != nil {
		return nil, err
	}
	l, ok := layerOf(a)
	if !ok {
		return nil, fmt.Errorf("gomoe: program %s has no expert layer, of which there would be choices", p.Name)
	}
	var all []Taken
	for _, c := range l.choices(len(wrt) > 0) {
		t, err := taken(ctx, p, cfg, c, wrt)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil && len(all) == 0 {
			return nil, err
		}
		if err != nil {
			t.Err = err.Error()
		}
		t.Changes = l.changes(c)
		all = append(all, t)
	}
	return all, nil
}

// taken compiles p with the Choice c.
func taken(ctx context.Context, p *graph.Program, cfg Config, c Choice, wrt []string) (Taken, error) {
	t := Taken{Choice: c, Name: c.String()}
	if c.Wire != graph.NoDType {
		t.Wire = c.Wire.String()
	}
	q, err := c.Program(p)
	if err == nil && len(wrt) > 0 {
		q, err = vjp.Grad(q, wrt...)
	}
	if err != nil {
		return t, err
	}
	plan, err := Compile(ctx, q, cfg)
	if err != nil {
		return t, err
	}
	r := plan.Report(goruntime.GOMAXPROCS(0))
	t.Total, t.Arena, t.Peak = r.Mem.Total, r.Mem.Arena, r.Mem.Peak.Live
	for _, op := range r.Comm.Totals {
		t.Exchanged += op.Bytes
	}
	t.received(plan)
	return t, nil
}

// received sets Arrive, Rows and Pairs from the plan and the bodies of its loops.
func (t *Taken) received(plan *lowering.Plan) {
	for i := range plan.Bufs {
		if r := plan.Bufs[i].Spec.Ragged; r != nil {
			t.Pairs = max(t.Pairs, r.Rows)
		}
	}
	for i := range plan.Instrs {
		in := &plan.Instrs[i]
		if in.Loop != nil {
			t.received(in.Loop.Body)
		}
		if _, ok := in.Prim.(primitives.DispatchOp); ok && in.Op == ops.AllToAll {
			to := plan.Bufs[in.Out[0]].Type
			t.Arrive, t.Rows = max(t.Arrive, to.Bytes()), max(t.Rows, to.Shape[0])
		}
	}
}

// placedLayer is the expert layer receiving the most rows.
type placedLayer struct {
	own                  Choice
	tokens, parts        int // tokens in the batch; the number of shards of it
	group, experts, each int // tokens of a group of ranks, experts, and experts chosen per token
	columns, ranks       int // columns of a row; ranks along the experts' axis
	rows                 graph.DType
	travels              bool
}

// layerOf returns the largest expert layer of a, loop bodies included.
func layerOf(a *sharding.Assignment) (most placedLayer, ok bool) {
	for _, e := range a.Program.Eqns {
		dec := a.Decision[e]
		if dec.Body != nil {
			if l, has := layerOf(dec.Body); has && (!ok || l.size() > most.size()) {
				most, ok = l, true
			}
		}
		op, is := e.Prim.(primitives.DispatchOp)
		if !is {
			continue
		}
		m, routing := a.Mesh, e.In[len(e.In)-1].Type
		axes := dec.Out[0].Ragged.Tokens
		cuts := m.Cuts(axes, routing.Shape[0])
		l := placedLayer{own: Choice{Exchange: op.Exchange, Receive: op.Receive, Wire: op.Wire}, tokens: routing.Shape[0], parts: cuts.Parts(),
			experts: op.Experts, each: routing.Shape[1], columns: e.In[0].Dim(1), rows: e.In[0].Type.DType}
		for rank := range m.Ranks() {
			g, _ := op.Group(m, rank, axes)
			n := 0
			for _, s := range g.Sources {
				n += cuts.Size(s)
			}
			l.group, l.ranks, l.travels = max(l.group, n), g.Experts.Parts(), len(g.Sources) > 1
		}
		if !ok || l.size() > most.size() {
			most, ok = l, true
		}
	}
	return most, ok
}

func (l *placedLayer) size() int { return l.group * l.columns * l.rows.Size() }

// even returns the number of rows that a rank receives if every token chooses its experts
// at random.
func (l *placedLayer) even() float64 {
	none := 1.0 // the probability that a token chooses no expert of the rank
	for i := range l.each {
		none *= max(0, 1-float64(l.experts)/float64(l.ranks)/float64(max(l.experts-i, 1)))
	}
	return float64(l.group) * (1 - none)
}

// choices returns the Choices to compare, the program's own first.
func (l *placedLayer) choices(gradient bool) []Choice {
	list := []Choice{l.own}
	add := func(c Choice) {
		if !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	homes := []ep.Exchange{ep.Rows, ep.Sum}
	if l.ranks == 1 { // no row is exchanged
		homes = []ep.Exchange{l.own.Exchange}
	}
	for _, x := range homes {
		add(Choice{Exchange: x})
		for n := l.tokens / 4; n >= max(l.parts, l.tokens/256, 1); n /= 4 {
			add(Choice{Exchange: x, Blocks: n})
		}
	}
	if l.travels {
		for _, factor := range []float64{2, 1.5, 1.25} {
			if n := int(math.Ceil(factor * l.even())); n < l.group {
				add(Choice{Exchange: l.own.Exchange, Receive: n})
			}
		}
	}
	if gradient {
		for _, r := range []Recomputed{RecomputeAllButExchanges, RecomputeAllButProducts, RecomputeAll} {
			add(Choice{Exchange: l.own.Exchange, Remat: r})
		}
	}
	for _, d := range []graph.DType{graph.F32, graph.BF16, graph.F16} {
		if l.ranks > 1 && d != l.wire() {
			add(Choice{Exchange: ep.Sum, Wire: d})
		}
	}
	if l.travels && l.columns%128 == 0 {
		for _, x := range homes {
			add(Choice{Exchange: x, Wire: graph.F8_E4M3})
		}
	}
	return list
}

// wire returns the default element type of sums on the return path.
func (l *placedLayer) wire() graph.DType {
	if l.travels || l.rows == graph.F64 {
		return l.rows
	}
	return graph.F32
}

// changes returns the effect of a Choice on the results.
func (l *placedLayer) changes(c Choice) string {
	switch {
	case c.Receive > 0 && l.travels:
		return "drops rows beyond it"
	case c.Wire.IsF8() && l.travels:
		return "rounds to 8 bits"
	case c.Exchange == ep.Sum && l.ranks > 1:
		return "close to one rank"
	}
	return ""
}
