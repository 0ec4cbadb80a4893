package nn

import (
	"github.com/gomoe/gomoe/graph"
)

// MLP is a gated network of the given width: down(silu(gate(x)) * up(x)), or what GLU says instead. Its parts are
// gate_proj, up_proj and down_proj, in GGUF files ffn_gate, ffn_up and ffn_down with Suffix behind them.
type MLP struct {
	Width  int
	Suffix string // of the names in GGUF files, such as _shexp
	GLU    GLU
}

// Apply returns the network's result for x[..,H] as [..,H].
func (m MLP) Apply(s *Scope, x *graph.Value) *graph.Value {
	graph.Helper()
	part := func(name string) *Scope { return s.In(name+"_proj", "ffn_"+name+m.Suffix) }
	gate := Linear{Out: m.Width, Split: Columns}.Apply(part("gate"), x)
	up := Linear{Out: m.Width, Split: Columns}.Apply(part("up"), x)
	return Linear{Out: x.Dim(-1), Split: Rows}.Apply(part("down"), m.GLU.apply(gate, up))
}
