// Package headless has what MLX's protocols have in common. Their ranks send each other
// elements and nothing that says what these are of: so all that can be checked are a
// rank's own arguments, and operations that MLX lacks are refused before anything is sent.
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

// Failure is why a job, or a rank of it, is of no use any more.
type Failure struct {
	Blame []int
	Text  string
	Err   error // a kind of failure or a cause; nil if another rank has told only its text
}

func (f *Failure) Error() string { return f.Text }
func (f *Failure) Unwrap() error { return f.Err }

// Member is one in a group of such a job, and checks the arguments of its calls. The
// checks return nil for what can be run.
type Member struct {
	Prefix string // of texts
	Rank   int    // in the job, by which texts name it
	Index  int    // in the group
	Size   int
}

// Argument is the failure of a rank that calls an operation with what cannot be.
func (m Member) Argument(c collective.Call, format string, args ...any) *Failure {
	return &Failure{Blame: []int{m.Rank}, Text: fmt.Sprintf("%srank %d calls %s with ", m.Prefix, m.Rank, c) + fmt.Sprintf(format, args...), Err: jaccl.ErrArgument}
}

// Named checks that a call has the name of its operation.
func (m Member) Named(c collective.Call, op string) *Failure {
	if c.Op != op {
		return m.Argument(c, "the method of %s, want the method of its name", op)
	}
	return nil
}

// Reducible checks the element type and that a buffer holds whole elements.
func (m Member) Reducible(c collective.Call, b []byte) *Failure {
	switch {
	case !c.DType.IsInt() && !c.DType.IsFloat() && c.DType != graph.Bool:
		return m.Argument(c, "elements of %s, want a type that MLX reduces: %s to %s", c.DType, graph.Bool, graph.F64)
	case len(b)%c.DType.Size() != 0:
		return m.Argument(c, "a buffer of %d bytes, want whole elements of %d bytes", len(b), c.DType.Size())
	}
	return nil
}

// Reduction checks the arguments of all_sum, all_max and all_min.
func (m Member) Reduction(c collective.Call, op string, dst, src []byte) *Failure {
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
func (m Member) Gather(c collective.Call, dst, src []byte) *Failure {
	bad := m.Named(c, "all_gather")
	if want := m.Size * len(src); bad == nil && len(dst) != want {
		bad = m.Argument(c, "dst of %d bytes and src of %d, want %d of dst for %d members", len(dst), len(src), want, m.Size)
	}
	return First(bad, m.Apart(c, dst, src))
}

// Scatter checks the arguments of reduce_scatter.
func (m Member) Scatter(c collective.Call, dst, src []byte) *Failure {
	bad := First(m.Named(c, "reduce_scatter"), m.Reducible(c, dst), m.Apart(c, dst, src))
	if want := m.Size * len(dst); bad == nil && len(src) != want {
		bad = m.Argument(c, "dst of %d bytes and src of %d, want %d of src for %d members", len(dst), len(src), want, m.Size)
	}
	return bad
}

// Apart checks that two buffers do not overlap.
func (m Member) Apart(c collective.Call, dst, src []byte) *Failure {
	if reduce.Overlap(dst, src) {
		return m.Argument(c, "a dst that overlaps src, want separate buffers")
	}
	return nil
}

// First returns the first failure.
func First(fs ...*Failure) *Failure {
	for _, f := range fs {
		if f != nil {
			return f
		}
	}
	return nil
}

// Left is the failure of a rank whose context has ended in a call; where says how far it
// was.
func (m Member) Left(ctx context.Context, c collective.Call, where string) *Failure {
	cause := context.Cause(ctx)
	return &Failure{Blame: []int{m.Rank}, Text: fmt.Sprintf("%srank %d left %s%s: %v", m.Prefix, m.Rank, c, where, cause), Err: cause}
}

// Error returns f as this rank's error.
func (m Member) Error(ctx context.Context, c collective.Call, f *Failure) error {
	return jaccl.Failed(ctx, m.Rank, c, f.Blame, f)
}

// Ranks checks those of a group that a rank of a job of that size asks for: each is in the
// job, and once.
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
