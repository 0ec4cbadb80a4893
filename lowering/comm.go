package lowering

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe/graph"
)

// Communicator connects the ranks of a job. Package jaccl implements it; the
// runtime sees only this interface. Its methods may be called by one goroutine
// per rank at a time.
type Communicator interface {
	// Rank is this process's index, 0 to Size()-1.
	Rank() int
	Size() int
	// Group returns the communicator of the given ranks of the job, in that
	// order, of which this rank is one. Every member calls it with the same
	// ranks; it does not block on the others.
	Group(ranks []int) (Group, error)
	// Fail poisons the job: every collective that waits or comes later, on any
	// rank, returns an error that wraps cause and names this rank.
	Fail(cause error)
	// Close releases the rank's resources. It may be called twice.
	Close() error
}

// Leaser is implemented by communicators that have memory of their own, from which and to
// which data goes without a copy: ranks see each other's, or a device knows it.
type Leaser interface {
	// Lease returns n bytes of it, zeroed, that begin at a page and stay until release
	// is called, also when the communicator is closed. release may be called twice. The
	// error says why there are none; memory of the process does as well then.
	Lease(n int) (b []byte, release func() error, err error)
}

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

// Group runs collectives among some ranks of a job. All methods block until
// this member's part is complete, until ctx ends, or until the deadline of the
// implementation passes; after an error the job is poisoned. Buffers belong to
// the caller again when the method returns.
type Group interface {
	// Rank is this member's index in the group, 0 to Size()-1.
	Rank() int
	Size() int
	// AllSum adds the members' src element by element, in rank order, into
	// every member's dst. dst may be src. Sums of bf16 and f16 are formed in
	// f32 and rounded once; bool is not summed.
	AllSum(ctx context.Context, c Call, dst, src []byte) error
	// AllGather writes the members' src, of one size, one after another into
	// every dst.
	AllGather(ctx context.Context, c Call, dst, src []byte) error
	// ReduceScatter adds the members' src as AllSum does and leaves part
	// Rank() of Size() equal parts in dst.
	ReduceScatter(ctx context.Context, c Call, dst, src []byte) error
	// AllToAll sends src[i] to member i and receives dst[i] from it. The
	// lengths that both sides state for a part are equal, and may be 0.
	AllToAll(ctx context.Context, c Call, dst, src [][]byte) error
	// Barrier returns when every member has called it.
	Barrier(ctx context.Context, c Call) error
}
