package collective

import "context"

// Group runs collectives among some ranks of a job. Every method blocks until
// this member's part is complete, until ctx ends, or until the implementation's
// deadline passes. After an error the job is poisoned. Buffers belong to the
// caller again when the method returns.
type Group interface {
	// Rank is this member's index in the group, 0 to Size()-1.
	Rank() int
	Size() int
	// AllSum adds the members' src element by element, in rank order or according to
	// Call.Pairs, into every member's dst. dst may be src. Sums of bf16 and f16 are
	// formed in f32 and rounded once; bool is not summed.
	AllSum(ctx context.Context, c Call, dst, src []byte) error
	// AllGather writes the src of every member, in member order, into every
	// dst. All src have the same size.
	AllGather(ctx context.Context, c Call, dst, src []byte) error
	// ReduceScatter adds the members' src like AllSum and cuts the sum into Size() equal
	// parts, storing part Rank() in dst.
	ReduceScatter(ctx context.Context, c Call, dst, src []byte) error
	// AllToAll sends src[i] to member i and receives dst[i] from it. Sender and
	// receiver must give the same length for a part; it may be 0.
	AllToAll(ctx context.Context, c Call, dst, src [][]byte) error
	// Barrier returns when every member has called it.
	Barrier(ctx context.Context, c Call) error
}

// PairSums is the name under which Limited.Lacks knows all_sum and reduce_scatter with
// Call.Pairs.
const PairSums = "sum in pairs"

// Limited is implemented by groups without some operations, so that a plan can be refused
// before its first step.
type Limited interface {
	// Lacks returns the reason why the group does not have the named operation, such as
	// all_to_all, and the transports that have it; nil if the group has it. Sums with
	// Call.Pairs have the name PairSums.
	Lacks(op string) error
}
