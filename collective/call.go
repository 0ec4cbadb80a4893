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
}

func (c Call) String() string {
	return fmt.Sprintf("%s #%d %s %d bytes (%s)", c.Op, c.Seq, c.DType, c.Bytes, c.Pos)
}
