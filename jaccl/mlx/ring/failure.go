package ring

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
)

// failure is what poisons a ring on this rank.
type failure struct {
	blame []int
	text  string
	err   error // a kind of failure or the user's cause
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.err }

func argument(rank int, c collective.Call, format string, args ...any) *failure {
	return &failure{[]int{rank}, fmt.Sprintf("ring: rank %d calls %s with ", rank, c) + fmt.Sprintf(format, args...), jaccl.ErrArgument}
}

func left(ctx context.Context, rank int, c collective.Call, where string) *failure {
	cause := context.Cause(ctx)
	return &failure{[]int{rank}, fmt.Sprintf("ring: rank %d left %s%s: %v", rank, c, where, cause), cause}
}

// unsupported is the error of an operation that MLX's ring has not. It ends no job:
// nothing was sent.
func (m *comm) unsupported(c collective.Call, what, instead string) error {
	return &jaccl.Error{Rank: m.rank, Call: c, Err: &failure{nil, fmt.Sprintf("ring: MLX's ring has no %s; %s", what, instead), jaccl.ErrUnsupported}}
}

// error returns f as this rank's error. Where the context ended too, the error
// wraps both causes: which came first is chance.
func (m *comm) error(ctx context.Context, c collective.Call, f *failure) error {
	e := &jaccl.Error{Rank: m.rank, Call: c, Blame: append([]int(nil), f.blame...), Err: f}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(f, cause) {
		e.Err = fmt.Errorf("%w, and the context of rank %d ended: %w", f, m.rank, cause)
	}
	return e
}
