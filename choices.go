package gomoe

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// Taken is the Estimate for a step with a Choice.
type Taken struct {
	Choice
	Estimate
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
		e, err := Setting{c.String(), func() (*graph.Program, Config, error) {
			q, err := c.Program(p)
			if err == nil && len(wrt) > 0 {
				q, err = vjp.Grad(q, wrt...)
			}
			return q, cfg, err
		}}.Estimate(ctx)
		if err != nil && (ctx.Err() != nil || len(all) == 0) {
			return nil, err
		}
		e.Changes = l.changes(c)
		all = append(all, Taken{c, e})
	}
	return all, nil
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

// WriteChoices writes the results of Choices as a table, followed by the errors of Choices
// without a plan.
func WriteChoices(w io.Writer, all []Taken) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "choice\tforward pass\texchanged\tarriving\trows\tin expert order\tarena\tin use\tmemory")
	for i, x := range all {
		name := x.Name
		if i == 0 {
			name += " (as written)"
		}
		if x.Err != "" {
			fmt.Fprintf(t, "%s\tno plan, see below\t-\t-\t-\t-\t-\t-\t-\n", name)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", name, cmp.Or(x.Changes, "same bits"), memory.Format(x.Exchanged),
			memory.Format(x.Arrive), x.Rows, x.Pairs, memory.Format(x.Arena), memory.Format(x.Peak), memory.Format(x.Total))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, x := range all {
		if x.Err != "" {
			if _, err := fmt.Fprintf(w, "%s: %s\n", x.Choice, x.Err); err != nil {
				return err
			}
		}
	}
	return nil
}
