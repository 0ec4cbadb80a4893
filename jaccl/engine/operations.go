package engine

import (
	"context"
	"slices"
	"unsafe"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/reduce"
	"github.com/gomoe/gomoe/jaccl"
)

// operations implements the methods of a Group: they check the caller's arguments
// and hand a post to the runner.
type operations struct {
	ranks []int // of the job, in group order
	index int   // of this member
	run   runner
}

// runner runs operations among the members of a group.
type runner interface {
	// meet runs one operation. bad is the error in the caller's arguments, or nil.
	meet(ctx context.Context, p post, bad *failure) error
	// child returns the group of these ranks: the members that passed color to a split
	// that has just succeeded. It returns nil if ranks is nil. Every member calls child for
	// every split.
	child(ranks []int, color int) (jaccl.Group, error)
}

func (o *operations) Rank() int { return o.index }

// Ranks implements Group.
func (o *operations) Ranks() []int { return slices.Clone(o.ranks) }

func (o *operations) Size() int { return len(o.ranks) }

// rank returns the member's rank in the job, used in errors to name the member.
func (o *operations) rank() int { return o.ranks[o.index] }

// AllSum implements collective.Group. Integers wrap around. dst is src or does
// not overlap it.
func (o *operations) AllSum(ctx context.Context, c collective.Call, dst, src []byte) error {
	return o.reduce(ctx, c, allSum, dst, src)
}

// AllMax implements Group. dst is src or does not overlap it. A positive zero is
// larger than a negative one.
func (o *operations) AllMax(ctx context.Context, c collective.Call, dst, src []byte) error {
	return o.reduce(ctx, c, allMax, dst, src)
}

// AllMin implements Group. dst is src or does not overlap it. A negative zero is
// smaller than a positive one.
func (o *operations) AllMin(ctx context.Context, c collective.Call, dst, src []byte) error {
	return o.reduce(ctx, c, allMin, dst, src)
}

func (o *operations) reduce(ctx context.Context, c collective.Call, op string, dst, src []byte) error {
	bad := o.named(c, op)
	if bad == nil {
		bad = o.numbers(c, src)
	}
	switch {
	case bad != nil:
	case len(dst) != len(src):
		bad = argument(o.rank(), c, "dst of %d bytes and src of %d, want equal lengths", len(dst), len(src))
	case reduce.Overlap(dst, src) && unsafe.SliceData(dst) != unsafe.SliceData(src):
		bad = argument(o.rank(), c, "a dst that overlaps a part of src, want the same buffer or separate ones")
	}
	return o.run.meet(ctx, post{call: c, dst: dst, src: src}, bad)
}

// AllGather implements collective.Group. dst and src do not overlap.
func (o *operations) AllGather(ctx context.Context, c collective.Call, dst, src []byte) error {
	bad := o.named(c, allGather)
	switch {
	case bad != nil:
	case len(dst) != product(o.Size(), len(src)):
		bad = argument(o.rank(), c, "dst of %d bytes and src of %d, want %d of dst for %d members", len(dst), len(src), product(o.Size(), len(src)), o.Size())
	case reduce.Overlap(dst, src):
		bad = argument(o.rank(), c, "a dst that overlaps src, want separate buffers")
	}
	return o.run.meet(ctx, post{call: c, dst: dst, src: src}, bad)
}

// AllGatherV implements Group. No part of dst overlaps src. The lengths are
// compared before any data moves.
func (o *operations) AllGatherV(ctx context.Context, c collective.Call, dst [][]byte, src []byte) error {
	bad := o.named(c, allGatherV)
	switch {
	case bad != nil:
	case len(dst) != o.Size():
		bad = argument(o.rank(), c, "%d parts of dst, want one for each of %d members", len(dst), o.Size())
	case len(dst[o.index]) != len(src):
		bad = argument(o.rank(), c, "%d bytes of src and %d of dst for them, want equal lengths", len(src), len(dst[o.index]))
	}
	for i, d := range dst {
		if bad == nil && reduce.Overlap(d, src) {
			bad = argument(o.rank(), c, "part %d of dst overlapping src, want separate buffers", i)
		}
	}
	return o.run.meet(ctx, post{call: c, dsts: dst, src: src}, bad)
}

// ReduceScatter implements collective.Group. dst and src do not overlap.
func (o *operations) ReduceScatter(ctx context.Context, c collective.Call, dst, src []byte) error {
	bad := o.named(c, reduceScatter)
	if bad == nil {
		bad = o.numbers(c, dst)
	}
	switch {
	case bad != nil:
	case len(src) != product(o.Size(), len(dst)):
		bad = argument(o.rank(), c, "dst of %d bytes and src of %d, want %d of src for %d members", len(dst), len(src), product(o.Size(), len(dst)), o.Size())
	case reduce.Overlap(dst, src):
		bad = argument(o.rank(), c, "a dst that overlaps src, want separate buffers")
	}
	return o.run.meet(ctx, post{call: c, dst: dst, src: src}, bad)
}

// AllToAll implements collective.Group. No part of dst overlaps a part of src.
// The lengths are compared before any data moves.
func (o *operations) AllToAll(ctx context.Context, c collective.Call, dst, src [][]byte) error {
	bad := o.named(c, allToAll)
	if bad == nil && (len(dst) != o.Size() || len(src) != o.Size()) {
		bad = argument(o.rank(), c, "%d parts of dst and %d of src, want one for each of %d members", len(dst), len(src), o.Size())
	}
	for i, d := range dst {
		for k, s := range src {
			if bad == nil && reduce.Overlap(d, s) {
				bad = argument(o.rank(), c, "part %d of dst overlapping part %d of src, want separate buffers", i, k)
			}
		}
	}
	return o.run.meet(ctx, post{call: c, dsts: dst, srcs: src}, bad)
}

// Broadcast implements Group.
func (o *operations) Broadcast(ctx context.Context, c collective.Call, root int, buf []byte) error {
	bad := o.named(c, broadcast)
	if bad == nil {
		bad = o.member(c, "root", root)
	}
	p := post{call: c, dst: buf, src: buf}
	if bad == nil {
		p.root = o.ranks[root]
	}
	return o.run.meet(ctx, p, bad)
}

// Barrier implements collective.Group.
func (o *operations) Barrier(ctx context.Context, c collective.Call) error {
	return o.run.meet(ctx, post{call: c}, o.named(c, barrier))
}

// Send implements Group.
func (o *operations) Send(ctx context.Context, c collective.Call, to int, src []byte) error {
	bad := o.named(c, send)
	if bad == nil {
		bad = o.other(c, "to", to)
	}
	p := post{call: c, src: src, to: none, from: none}
	if bad == nil {
		p.to = o.ranks[to]
	}
	return o.run.meet(ctx, p, bad)
}

// Recv implements Group.
func (o *operations) Recv(ctx context.Context, c collective.Call, from int, dst []byte) error {
	bad := o.named(c, recv)
	if bad == nil {
		bad = o.other(c, "from", from)
	}
	p := post{call: c, dst: dst, to: none, from: none}
	if bad == nil {
		p.from = o.ranks[from]
	}
	return o.run.meet(ctx, p, bad)
}

// SendRecv implements Group. dst and src do not overlap. A member may send to
// itself if it also receives from itself. SendRecv waits only for the two members
// that it names, which must name this member in their own SendRecv.
func (o *operations) SendRecv(ctx context.Context, c collective.Call, to int, src []byte, from int, dst []byte) error {
	bad := o.named(c, sendRecv)
	if bad == nil {
		bad = o.member(c, "to", to)
	}
	if bad == nil {
		bad = o.member(c, "from", from)
	}
	switch {
	case bad != nil:
	case (to == o.index) != (from == o.index):
		bad = argument(o.rank(), c, "member %d to send to and member %d to receive from, one of which is itself, want both or neither", to, from)
	case to == o.index && len(dst) != len(src):
		bad = argument(o.rank(), c, "dst of %d bytes and src of %d for itself, want equal lengths", len(dst), len(src))
	case reduce.Overlap(dst, src):
		bad = argument(o.rank(), c, "a dst that overlaps src, want separate buffers")
	}
	p := post{call: c, dst: dst, src: src, to: none, from: none}
	if bad == nil {
		p.to, p.from = o.ranks[to], o.ranks[from]
	}
	return o.run.meet(ctx, p, bad)
}

// Split implements Group. The new group differs from Among's group of the same ranks:
// closing one does not close the other.
func (o *operations) Split(ctx context.Context, c collective.Call, color, key int) (jaccl.Group, error) {
	var chosen []int
	if err := o.run.meet(ctx, post{call: c, color: color, key: key, chosen: &chosen}, o.named(c, split)); err != nil {
		return nil, err
	}
	return o.run.child(chosen, color)
}

// named checks that the call has the name of its method.
func (o *operations) named(c collective.Call, op string) *failure {
	if c.Op != op {
		return argument(o.rank(), c, "the method of %s, want the method of its name", op)
	}
	return nil
}

// numbers checks the element type and that a buffer holds whole elements.
func (o *operations) numbers(c collective.Call, b []byte) *failure {
	switch {
	case c.DType.IsF8():
		return argument(o.rank(), c, "elements of %s, whose sums would lose most of their bits; convert them to f32 or bf16 before the sum", c.DType)
	case !c.DType.IsInt() && !c.DType.IsFloat():
		return argument(o.rank(), c, "elements of %s, want a type that can be summed: %s to %s", c.DType, graph.U8, graph.F64)
	case len(b)%c.DType.Size() != 0:
		return argument(o.rank(), c, "a buffer of %d bytes, want whole elements of %d bytes", len(b), c.DType.Size())
	}
	return nil
}

// member checks an index in the group.
func (o *operations) member(c collective.Call, what string, i int) *failure {
	if i < 0 || i >= o.Size() {
		return argument(o.rank(), c, "member %d as %s, want 0 to %d", i, what, o.Size()-1)
	}
	return nil
}

// other checks that i is the index of another member.
func (o *operations) other(c collective.Call, what string, i int) *failure {
	if i == o.index {
		return argument(o.rank(), c, "itself, member %d, as %s, want another member, or SendRecv", i, what)
	}
	return o.member(c, what, i)
}
