package nn

import (
	"strings"

	"github.com/gomoe/gomoe/graph"
)

// Embedding is a table with a row for every token, the parameter weight [Vocab,Width].
type Embedding struct{ Vocab, Width int }

// Apply returns the rows of tokens i32[..] as [..,Width], in the type to calculate in.
func (e Embedding) Apply(s *Scope, tokens *graph.Value) *graph.Value {
	graph.Helper()
	if s.adapted("") {
		graph.Fail("lora: %s is a table of tokens, which has no adapter; want other targets than %q", strings.TrimSuffix(s.name, "."), s.opts.LoRA.Targets)
	}
	table := s.matrix("weight", "weight", Init{Std: 0.02}, nil, e.Vocab, e.Width)
	return table.rows(tokens, s.DType())
}
