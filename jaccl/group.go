package jaccl

import (
	"context"

	"github.com/gomoe/gomoe/collective"
)

// Communicator connects one rank to a job, over any transport. Its collectives run one at
// a time, in the order of the rank's calls; Fail and Close may be called at any time from
// any goroutine.
type Communicator interface {
	collective.Communicator
	// World returns the group of all ranks of the job, in order.
	World() Group
	// Among returns the group of the given ranks, in that order; this rank must be one of
	// them. It is Group, returning this package's larger interface. It does not wait for
	// the other ranks.
	Among(ranks []int) (Group, error)
}

// Group runs collectives among some ranks of a job. It adds to collective.Group
// operations that plans do not need but other programs do. The rules of collective.Group
// about blocking, errors and ownership apply. Every member passes an equal Call, with the
// operation's name as its Op, to its n-th operation. If one member passes another Call,
// every member gets an error naming both sides.
//
// AllToAll is MPI's Alltoall and Alltoallv: parts may have any lengths, including 0.
type Group interface {
	collective.Group
	// Ranks returns the members' ranks in the job, in the group's order. The slice is
	// the caller's.
	Ranks() []int
	// AllMax writes into every member's dst, for each index, the largest of the
	// members' elements of src; a NaN wins. dst may be src. The Op is all_max.
	AllMax(ctx context.Context, c collective.Call, dst, src []byte) error
	// AllMin is AllMax with the smallest element. The Op is all_min.
	AllMin(ctx context.Context, c collective.Call, dst, src []byte) error
	// AllGatherV writes member i's src into every member's dst[i]. All members give
	// dst[i] the length of that src, which may be 0. The Op is all_gather_v.
	AllGatherV(ctx context.Context, c collective.Call, dst [][]byte, src []byte) error
	// Broadcast copies member root's buf into every other member's buf. The Op is
	// broadcast.
	Broadcast(ctx context.Context, c collective.Call, root int, buf []byte) error
	// Send sends src to member to, which calls Recv with a dst of the same length.
	// It returns when that member has called Recv and src is the caller's again. Two
	// members that both call Send first get an error; they need SendRecv. The Op is
	// send, and recv on the other side.
	Send(ctx context.Context, c collective.Call, to int, src []byte) error
	// Recv fills dst with the data sent by member from with Send. The Op is recv.
	Recv(ctx context.Context, c collective.Call, from int, dst []byte) error
	// SendRecv sends src to one member and at the same time receives dst from
	// another one or the same one. The members of a ring call it to pass data on.
	// The Op is send_recv.
	SendRecv(ctx context.Context, c collective.Call, to int, src []byte, from int, dst []byte) error
	// Split returns the group of the members passing the same color, ordered by key and
	// then by rank. A member with a negative color joins no group and gets nil. Every
	// member calls Split. The Op is split.
	Split(ctx context.Context, c collective.Call, color, key int) (Group, error)
	// Close declares that this member will call no more operations of the group. It does
	// not block, and may be called twice. The job and its other groups continue. Members
	// that wait for this member in the group, now or later, get an error.
	Close() error
}

// Memory is implemented by communicators that may hand out memory of their link.
type Memory interface {
	// Alloc returns n zeroed bytes that all ranks can read, so operations on them move no
	// byte twice. The bytes are aligned to a page and are released with the communicator.
	// The error is ErrUnsupported if the ranks do not share memory.
	Alloc(n int) ([]byte, error)
	// Lease is link.Lender's Lease, with the same errors; it returns ErrUnsupported if
	// the link is not a Lender. Sessions work in this memory; see collective.Leaser.
	collective.Leaser
}
