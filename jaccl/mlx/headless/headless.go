// Package headless has the common part of MLX's protocols. Their ranks send each other
// only elements, without heads that identify the operation. So a rank can check only its
// own arguments, and operations missing in MLX are refused before anything is sent. The
// transports are packages ring and mesh.
package headless

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/reduce"
	"github.com/gomoe/gomoe/jaccl"
)

// FailureError is the reason why a job, or one of its ranks, cannot be used any more.
// Blame lists the ranks at fault.
type FailureError struct {
	Blame []int
	Text  string
	Err   error // a kind of failure or a cause; nil if another rank has told only its text
}

func (f *FailureError) Error() string { return f.Text }
func (f *FailureError) Unwrap() error { return f.Err }

// Member is a member of a group of such a job, which embeds it. It names the member, checks
// the arguments of calls, returning nil if the call can be run, and refuses the operations
// that the protocol lacks, naming an alternative.
type Member struct {
	Prefix   string   // prefix of error texts
	Protocol string   // the protocol, such as "MLX's ring"
	Job      string   // an alternative for groups of some ranks, such as "a ring"
	Instead  string   // a transport that has the missing operations
	More     []string // operations missing in this protocol but present in another protocol of MLX

	Members []int // the members' ranks in the job, in the group's order
	Index   int   // of this member
}

// Rank implements collective.Group.
func (m *Member) Rank() int { return m.Index }

// Size implements collective.Group.
func (m *Member) Size() int { return len(m.Members) }

// Ranks implements jaccl.Group.
func (m *Member) Ranks() []int { return slices.Clone(m.Members) }

// Self returns this member's rank in the job, which error texts name.
func (m *Member) Self() int { return m.Members[m.Index] }

// Argument returns the failure of this rank for a call with a wrong argument.
func (m *Member) Argument(c collective.Call, format string, args ...any) *FailureError {
	return &FailureError{Blame: []int{m.Self()}, Text: fmt.Sprintf("%srank %d calls %s with ", m.Prefix, m.Self(), c) + fmt.Sprintf(format, args...), Err: jaccl.ErrArgument}
}

// Named checks that the call has the name op.
func (m *Member) Named(c collective.Call, op string) *FailureError {
	if c.Op != op {
		return m.Argument(c, "the method of %s, want the method of its name", op)
	}
	return nil
}

// reducible checks the element type and that a buffer holds whole elements.
func (m *Member) reducible(c collective.Call, b []byte) *FailureError {
	switch {
	case c.DType.IsF8():
		return m.Argument(c, "elements of %s, whose sums would lose most of their bits; convert them to f32 or bf16 before the sum", c.DType)
	case !c.DType.IsInt() && !c.DType.IsFloat() && c.DType != graph.Bool:
		return m.Argument(c, "elements of %s, want a type that MLX reduces: %s to %s", c.DType, graph.Bool, graph.F64)
	case len(b)%c.DType.Size() != 0:
		return m.Argument(c, "a buffer of %d bytes, want whole elements of %d bytes", len(b), c.DType.Size())
	}
	return nil
}

// Reduction checks the arguments of all_sum, all_max and all_min.
func (m *Member) Reduction(c collective.Call, op string, dst, src []byte) *FailureError {
	bad := First(m.Named(c, op), m.reducible(c, src))
	switch {
	case bad != nil:
	case len(dst) != len(src):
		bad = m.Argument(c, "dst of %d bytes and src of %d, want equal lengths", len(dst), len(src))
	case reduce.Overlap(dst, src) && !reduce.Same(dst, src):
		bad = m.Argument(c, "a dst that overlaps a part of src, want the same buffer or separate ones")
	}
	return bad
}

// Gather checks the arguments of all_gather.
func (m *Member) Gather(c collective.Call, dst, src []byte) *FailureError {
	bad := m.Named(c, "all_gather")
	if want := m.Size() * len(src); bad == nil && len(dst) != want {
		bad = m.Argument(c, "dst of %d bytes and src of %d, want %d of dst for %d members", len(dst), len(src), want, m.Size())
	}
	return First(bad, m.Apart(c, dst, src))
}

// Scatter checks the arguments of reduce_scatter.
func (m *Member) Scatter(c collective.Call, dst, src []byte) *FailureError {
	bad := First(m.Named(c, "reduce_scatter"), m.reducible(c, dst), m.Apart(c, dst, src))
	if want := m.Size() * len(dst); bad == nil && len(src) != want {
		bad = m.Argument(c, "dst of %d bytes and src of %d, want %d of src for %d members", len(dst), len(src), want, m.Size())
	}
	return bad
}

// Apart checks that two buffers do not overlap.
func (m *Member) Apart(c collective.Call, dst, src []byte) *FailureError {
	if reduce.Overlap(dst, src) {
		return m.Argument(c, "a dst that overlaps src, want separate buffers")
	}
	return nil
}

// First returns the first failure that is not nil, nil if there is none.
func First(fs ...*FailureError) *FailureError {
	for _, f := range fs {
		if f != nil {
			return f
		}
	}
	return nil
}

// Left returns the failure of this rank if its context has ended during a call. where
// describes the progress of the call.
func (m *Member) Left(ctx context.Context, c collective.Call, where string) *FailureError {
	cause := context.Cause(ctx)
	return &FailureError{Blame: []int{m.Self()}, Text: fmt.Sprintf("%srank %d left %s%s: %v", m.Prefix, m.Self(), c, where, cause), Err: cause}
}

// Error returns f as this rank's error.
func (m *Member) Error(ctx context.Context, c collective.Call, f *FailureError) error {
	return jaccl.Failed(ctx, m.Self(), c, f.Blame, f)
}

// Ranks checks the ranks of a group: each must be a rank of a job of that size, and no rank
// may occur twice.
func Ranks(prefix string, ranks []int, size int) error {
	for i, r := range ranks {
		if r < 0 || r >= size {
			return fmt.Errorf("%sgroup %v: rank %d is not in the job, want 0 to %d", prefix, ranks, r, size-1)
		}
		if slices.Contains(ranks[:i], r) {
			return fmt.Errorf("%sgroup %v: rank %d twice, want every rank once", prefix, ranks, r)
		}
	}
	return nil
}

// Everyone returns the ranks of a job of that size.
func Everyone(size int) []int {
	ranks := make([]int, size)
	for i := range ranks {
		ranks[i] = i
	}
	return ranks
}

// Dial connects to an address. It retries until it succeeds or ctx ends, after wait and then
// after twice the time, up to most. The error has the cause of ctx and the error of the last attempt not cut off by
// it: a dialer reads the clock, and may report ctx's deadline as an "i/o timeout" before
// ctx ends.
func Dial(ctx context.Context, network, address string, wait, most time.Duration) (net.Conn, error) {
	var d net.Dialer
	var last error
	for ; ; wait = min(2*wait, most) {
		c, err := d.DialContext(ctx, network, address) // with TCP_NODELAY, which is Go's default
		if err == nil {
			return c, nil
		}
		if end, ok := ctx.Deadline(); last == nil || ctx.Err() == nil && (!ok || time.Now().Before(end)) {
			last = err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w, %w", context.Cause(ctx), last)
		}
	}
}

// Lacks implements collective.Limited.
func (m *Member) Lacks(op string) error {
	switch op {
	case collective.PairSums:
		return fmt.Errorf("%s%s adds in an order of its own, and a plan with the same bits on every mesh has sums in pairs of more than two ranks; use the transport tcp, shm, verbs or mpi: %w", m.Prefix, m.Protocol, jaccl.ErrUnsupported)
	case "all_to_all", "all_gather_v", "broadcast", "split": // none of MLX's protocols has these
	default:
		if !slices.Contains(m.More, op) {
			return nil
		}
	}
	return fmt.Errorf("%s%s has no %s, which tokens that are split over the experts' axis and arrays that change their placement need; keep tokens whole over the experts' axis, or use the transport tcp, shm, verbs or mpi: %w", m.Prefix, m.Protocol, op, jaccl.ErrUnsupported)
}

// Unsupported returns the error of an operation missing in the protocol. The error does
// not end the job, because nothing was sent.
func (m *Member) Unsupported(c collective.Call, what, instead string) error {
	return &jaccl.Error{Rank: m.Self(), Call: c, Err: &FailureError{Text: fmt.Sprintf("%s%s has no %s; %s", m.Prefix, m.Protocol, what, instead), Err: jaccl.ErrUnsupported}}
}

func (m *Member) or(instead string) string { return instead + ", or the transport " + m.Instead }

// AllToAll returns jaccl.ErrUnsupported.
func (m *Member) AllToAll(_ context.Context, c collective.Call, _, _ [][]byte) error {
	return m.Unsupported(c, "all_to_all", m.or("use AllGather and the parts for this rank"))
}

// AllGatherV returns jaccl.ErrUnsupported.
func (m *Member) AllGatherV(_ context.Context, c collective.Call, _ [][]byte, _ []byte) error {
	return m.Unsupported(c, "all_gather of different lengths", m.or("use AllGather with blocks of the largest length"))
}

// Broadcast returns jaccl.ErrUnsupported.
func (m *Member) Broadcast(_ context.Context, c collective.Call, _ int, _ []byte) error {
	return m.Unsupported(c, "broadcast", m.or("use AllSum with zeros on all ranks but the root"))
}

// Split returns jaccl.ErrUnsupported.
func (m *Member) Split(_ context.Context, c collective.Call, _, _ int) (jaccl.Group, error) {
	return nil, m.Unsupported(c, "split", m.or("use "+m.Job+" for each group"))
}
