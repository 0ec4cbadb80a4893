package nn

import (
	"strings"

	"github.com/gomoe/gomoe/graph"
)

// Embedding is a table with a row for every token, the parameter weight [Vocab,Width].
type Embedding struct {
	Vocab, Width int
	// Split has the mesh axis tp split the vocabulary: each rank has the rows of some tokens, and the sum of what ranks find is
	// exchanged. The table is then of numbers. A head that is split alike is a Linear with Columns, of the same scope if it is
	// the table, and pr.CrossEntropyInBlocks is a loss that never gathers the logits.
	Split bool
}

// Apply returns the rows of tokens i32[..] as [..,Width], in the type to calculate in.
func (e Embedding) Apply(s *Scope, tokens *graph.Value) *graph.Value {
	graph.Helper()
	if s.adapted("") {
		graph.Fail("lora: %s is a table of tokens, which has no adapter; want other targets than %q", strings.TrimSuffix(s.name, "."), s.opts.LoRA.Targets)
	}
	var place []string
	if e.Split {
		place = []string{"tp"}
	}
	table := s.matrix("weight", "weight", Init{Std: 0.02}, place, e.Vocab, e.Width)
	return table.rows(tokens, s.DType())
}
