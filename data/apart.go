package data

import (
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// Apart returns a bias [B,1,S,S] of element type d for AttentionParams.Bias that masks attention between documents:
// it is 0 where two tokens have equal numbers in documents i32[B,S], and -Inf elsewhere.
func Apart(documents *graph.Value, d graph.DType) *graph.Value {
	graph.Helper()
	if documents.Rank() != 2 {
		graph.Fail("apart: documents are %s, want i32[B,S]", documents.Type)
	}
	b, s := documents.Dim(0), documents.Dim(1)
	same := primitives.Eq(primitives.BroadcastInDim(documents, []int{b, 1, s, s}, 0, 2), primitives.BroadcastInDim(documents, []int{b, 1, s, s}, 0, 3))
	t := documents.Tracer()
	return primitives.Where(same, primitives.Full(t, 0, d, b, 1, s, s), primitives.Full(t, math.Inf(-1), d, b, 1, s, s))
}
