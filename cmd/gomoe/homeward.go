package main

import (
	"flag"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
)

// homeward holds the flags for the return path of experts' outputs.
type homeward struct{ exchange, wire string }

// flags adds the flags.
func (h *homeward) flags(fs *flag.FlagSet) {
	fs.StringVar(&h.exchange, "exchange", "", "how experts' outputs return to their tokens: rows, with the same bits as on one rank, or sum, which sends less; rows if not given")
	fs.StringVar(&h.wire, "wire", "", "element `type` of returned sums, with -exchange sum: f32, bf16 or f16; f32 if not given")
}

// parse returns the flags' values.
func (h *homeward) parse() (ep.Exchange, graph.DType, error) {
	x := ep.Exchange(h.exchange)
	if h.exchange == ep.Rows.String() {
		x = ep.Rows
	}
	if x.Validate() != nil {
		return x, graph.NoDType, usagef("-exchange %s, want rows or sum", quoted.Text(h.exchange))
	}
	for _, d := range []graph.DType{graph.F32, graph.BF16, graph.F16} {
		if d.String() != h.wire {
			continue
		}
		if x != ep.Sum {
			return x, d, usagef("-wire %s is the type of sums, want -exchange sum, too", h.wire)
		}
		return x, d, nil
	}
	if h.wire != "" {
		return x, graph.NoDType, usagef("-wire %s, want f32, bf16 or f16", quoted.Text(h.wire))
	}
	return x, graph.NoDType, nil
}
