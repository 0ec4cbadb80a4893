package nn

import (
	"strings"

	"github.com/gomoe/gomoe/graph"
)

// Embedding is a lookup table with one row per token, the parameter weight [Vocab,Width].
type Embedding struct {
	Vocab, Width int
	// Split shards the vocabulary over the mesh axis tp. Each rank looks up the tokens in its shard, and an all-reduce
	// adds up the results. The table must be stored unquantised. A head sharded the same way is a Linear with Columns,
	// in the same scope if it shares the table. primitives.CrossEntropyInBlocks is a loss that never gathers the logits.
	Split bool
}

// Apply returns the rows of tokens i32[..] as [..,Width], in the scope's computation type.
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
