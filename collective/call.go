package collective

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
)

// Call names one collective operation. Every member of a group passes an equal
// Call to its n-th operation, so ranks whose plans diverge are detected.
type Call struct {
	Op    string // all_sum, all_gather, reduce_scatter, all_to_all, barrier
	Seq   int    // counts the collectives of one step, from 0
	DType graph.DType
	Bytes int64     // the operation's size in the plan, equal on all members
	Pos   graph.Pos // the user's line
	// Pairs has sums of f32 and f64 added in pairs: those of n members are the sum of the
	// first half of them, formed so, and that of the others; the first half is the largest
	// power of two below n. A sum over blocks of members is then a part of the sum over all.
	// Without it sums are added in rank order, as those of other types always are.
	Pairs bool
}

func (c Call) String() string {
	return fmt.Sprintf("%s #%d %s %d bytes (%s)", c.Op, c.Seq, c.DType, c.Bytes, c.Pos)
}
