package nn

import (
	"github.com/gomoe/gomoe/graph"
)

// MLP is a gated feed-forward network of the given width: down(silu(gate(x)) * up(x)), unless GLU selects another
// activation. Its parts are named by Matrices; in GGUF files they are ffn_gate, ffn_up and ffn_down followed by
// Suffix.
type MLP struct {
	Width int
	Matrices
	Suffix string // of the names in GGUF files, such as _shexp
	GLU    GLU
}

// Matrices names the parts of a gated network; "" means gate_proj, up_proj or down_proj.
type Matrices struct{ Gate, Up, Down string }

func (m Matrices) named() Matrices {
	for name, usual := range map[*string]string{&m.Gate: "gate_proj", &m.Up: "up_proj", &m.Down: "down_proj"} {
		if *name == "" {
			*name = usual
		}
	}
	return m
}

// Apply returns the network's output for x[..,H], as [..,H].
func (m MLP) Apply(s *Scope, x *graph.Value) *graph.Value {
	graph.Helper()
	name := m.Matrices.named()
	gate := Linear{Out: m.Width, Split: Columns}.Apply(s.In(name.Gate, "ffn_gate"+m.Suffix), x)
	up := Linear{Out: m.Width, Split: Columns}.Apply(s.In(name.Up, "ffn_up"+m.Suffix), x)
	return Linear{Out: x.Dim(-1), Split: Rows}.Apply(s.In(name.Down, "ffn_down"+m.Suffix), m.GLU.apply(gate, up))
}
