// Package headless has the common part of MLX's protocols. Their ranks send each other
// only elements, without heads that identify the operation. So a rank can check only its
// own arguments, and operations missing in MLX are refused before anything is sent. The
// transports are packages ring and mesh.
package headless

import (
	"context"
	"fmt"
	"slices"

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

// Member is a member of a group of such a job. Its methods check the arguments of calls;
// they return nil if the call can be run.
type Member struct {
	Prefix string // prefix of error texts
	Rank   int    // the member's rank in the job, which error texts name
	Index  int    // the member's index in the group
	Size   int    // the number of members of the group
}

// Argument returns the failure of this rank for a call with a wrong argument.
func (m Member) Argument(c collective.Call, format string, args ...any) *FailureError {
	return &FailureError{Blame: []int{m.Rank}, Text: fmt.Sprintf("%srank %d calls %s with ", m.Prefix, m.Rank, c) + fmt.Sprintf(format, args...), Err: jaccl.ErrArgument}
}

// Named checks that the call has the name op.
func (m Member) Named(c collective.Call, op string) *FailureError {
	if c.Op != op {
		return m.Argument(c, "the method of %s, want the method of its name", op)
	}
	return nil
}

// Reducible checks the element type and that a buffer holds whole elements.
func (m Member) Reducible(c collective.Call, b []byte) *FailureError {
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
func (m Member) Reduction(c collective.Call, op string, dst, src []byte) *FailureError {
	bad := First(m.Named(c, op), m.Reducible(c, src))
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
func (m Member) Gather(c collective.Call, dst, src []byte) *FailureError {
	bad := m.Named(c, "all_gather")
	if want := m.Size * len(src); bad == nil && len(dst) != want {
		bad = m.Argument(c, "dst of %d bytes and src of %d, want %d of dst for %d members", len(dst), len(src), want, m.Size)
	}
	return First(bad, m.Apart(c, dst, src))
}

// Scatter checks the arguments of reduce_scatter.
func (m Member) Scatter(c collective.Call, dst, src []byte) *FailureError {
	bad := First(m.Named(c, "reduce_scatter"), m.Reducible(c, dst), m.Apart(c, dst, src))
	if want := m.Size * len(dst); bad == nil && len(src) != want {
		bad = m.Argument(c, "dst of %d bytes and src of %d, want %d of src for %d members", len(dst), len(src), want, m.Size)
	}
	return bad
}

// Apart checks that two buffers do not overlap.
func (m Member) Apart(c collective.Call, dst, src []byte) *FailureError {
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
func (m Member) Left(ctx context.Context, c collective.Call, where string) *FailureError {
	cause := context.Cause(ctx)
	return &FailureError{Blame: []int{m.Rank}, Text: fmt.Sprintf("%srank %d left %s%s: %v", m.Prefix, m.Rank, c, where, cause), Err: cause}
}

// Error returns f as this rank's error.
func (m Member) Error(ctx context.Context, c collective.Call, f *FailureError) error {
	return jaccl.Failed(ctx, m.Rank, c, f.Blame, f)
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
