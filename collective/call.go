package collective

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
)

// Call names one collective operation, so that ranks that diverge are told
// apart: every member of a group passes an equal Call to its n-th operation.
type Call struct {
	Op    string // all_sum, all_gather, reduce_scatter, all_to_all, barrier
	Seq   int    // counts the collectives of one step, from 0
	DType graph.DType
	Bytes int64     // the plan's size of the operation, equal on all members
	Pos   graph.Pos // the user's line
}

func (c Call) String() string {
	return fmt.Sprintf("%s #%d %s %d bytes (%s)", c.Op, c.Seq, c.DType, c.Bytes, c.Pos)
}
