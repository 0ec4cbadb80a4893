package jaccl

import (
	"context"

	"github.com/gomoe/gomoe/collective"
)

// Communicator is one rank's end of a job, whatever carries its data. Its
// collectives run one at a time, in the order in which the rank calls them; Fail
// and Close may be called at any time from any goroutine.
type Communicator interface {
	collective.Communicator
	// World returns the group of all ranks of the job, in order.
	World() Group
	// Among is Group with the complete interface: the group of the given ranks,
	// in that order, of which this rank is one. It does not block on the others.
	Among(ranks []int) (Group, error)
}

// Group runs collectives among some ranks of a job. It adds to collective.Group
// what a plan does not need and a program of its own does; what is said there
// about blocking, errors and ownership holds here too. Every member passes an
// equal Call, whose Op is the operation's name, to its n-th operation; a member
// that does not is an error on every member that names both sides.
//
// AllToAll is MPI's Alltoall and Alltoallv: parts have any lengths, also 0.
type Group interface {
	collective.Group
	// Ranks returns the members' ranks in the job, in the group's order. The slice is
	// the caller's.
	Ranks() []int
	// AllMax leaves in every dst the largest element of the members' src, for
	// each place; a NaN wins. dst may be src. The Op is all_max.
	AllMax(ctx context.Context, c collective.Call, dst, src []byte) error
	// AllMin is AllMax with the smallest element. The Op is all_min.
	AllMin(ctx context.Context, c collective.Call, dst, src []byte) error
	// AllGatherV writes member i's src into every member's dst[i], whose length
	// all members state alike, and may be 0. The Op is all_gather_v.
	AllGatherV(ctx context.Context, c collective.Call, dst [][]byte, src []byte) error
	// Broadcast writes member root's buf into every member's. The Op is broadcast.
	Broadcast(ctx context.Context, c collective.Call, root int, buf []byte) error
	// Send gives src to member to, which calls Recv with a dst of that length. It
	// returns when the member has come to its Recv and src is the caller's again,
	// so that two members that both send to each other first are told of it; see
	// SendRecv. The Op is send, and recv on the other side.
	Send(ctx context.Context, c collective.Call, to int, src []byte) error
	// Recv is the other side of Send.
	Recv(ctx context.Context, c collective.Call, from int, dst []byte) error
	// SendRecv sends src to one member and receives dst from another, or the same,
	// at once: every member of a ring calls it to pass something on. The Op is
	// send_recv.
	SendRecv(ctx context.Context, c collective.Call, to int, src []byte, from int, dst []byte) error
	// Split returns the group of the members that pass the same color, ordered by
	// key and then by rank; a negative color is none, and returns nil. Every
	// member calls it. The Op is split.
	Split(ctx context.Context, c collective.Call, color, key int) (Group, error)
	// Close says that this member calls no operation of the group any more. It
	// does not block, and may be called twice; the job and its other groups go on.
	// Members that wait for this one in the group, or come to, get an error.
	Close() error
}
