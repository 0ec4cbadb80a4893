package nn

import (
	"cmp"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// Remat selects the values that the backward pass recomputes in each layer, to save memory. It does not change
// results.
type Remat string

const (
	RematOff      Remat = ""
	RematProducts Remat = "products" // everything except matrix products and exchanges between ranks
	RematAll      Remat = "all"      // everything
)

// String returns off for RematOff.
func (r Remat) String() string { return cmp.Or(string(r), "off") }

// Remat applies a layer to x, recomputing its values in the backward pass according to Options.Remat. The layer may
// declare parameters of the scope and contain MoE layers.
func (s *Scope) Remat(name string, x *graph.Value, layer func(*graph.Value) *graph.Value) *graph.Value {
	graph.Helper()
	var keep vjp.Keep
	switch s.opts.Remat {
	case RematOff:
		return layer(x)
	case RematProducts:
		keep = vjp.KeepAny(primitives.KeepProducts, primitives.KeepExchanges)
	case RematAll:
	default:
		graph.Fail("remat %q, want nothing, %q or %q", s.opts.Remat, RematProducts, RematAll)
	}
	if s.opts.Key != nil && s.key == nil {
		s.key = s.opts.Key(s.t) // outside the layer, because other layers use it too
	}
	before := len(s.routed)
	// The layer returns its routing results as additional results.
	fields := func(r *Routed) []**graph.Value {
		return []**graph.Value{&r.Chosen, &r.Logits, &r.Scores, &r.Demand, &r.Counts}
	}
	out := vjp.RematKeep(name, keep, func(_ *graph.Tracer, a []*graph.Value) []*graph.Value {
		all := []*graph.Value{layer(a[0])}
		for i := range s.routed[before:] {
			for _, v := range fields(&s.routed[before+i]) {
				if *v != nil {
					all = append(all, *v)
				}
			}
		}
		return all
	}, x)
	rest := out[1:]
	for i := range s.routed[before:] {
		for _, v := range fields(&s.routed[before+i]) {
			if *v != nil {
				*v, rest = rest[0], rest[1:]
			}
		}
	}
	return out[0]
}
