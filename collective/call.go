package collective

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
)

// Call names one collective operation. Every member of a group passes an equal Call to
// its n-th operation, so that diverging plans are detected.
type Call struct {
	Op    string // all_sum, all_gather, reduce_scatter, all_to_all, barrier
	Seq   int    // number of the collective within a step, from 0
	DType graph.DType
	Bytes int64     // the operation's size in the plan, equal on all members
	Pos   graph.Pos // the user's line
	// Pairs adds sums of f32 and f64 in pairs. The sum over n members is the sum of the
	// first half of them, formed recursively, plus the sum of the others; the first half
	// is the largest power of two below n. The sum over a block of members is then an
	// operand of the sum over all. Without Pairs sums are added in rank order, as sums of
	// other types always are.
	Pairs bool
}

func (c Call) String() string {
	return fmt.Sprintf("%s #%d %s %d bytes (%s)", c.Op, c.Seq, c.DType, c.Bytes, c.Pos)
}
