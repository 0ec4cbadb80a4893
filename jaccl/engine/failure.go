package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
)

// failure poisons a job. The errors of all ranks of a process share it.
type failure struct {
	blame []int  // the ranks that caused it
	text  string // for messages
	err   error  // a kind of failure, or the cause given to Fail or of a context; nil if only another rank has it
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.err }

// seen returns the failure as the error of a rank, for its failed call c.
func (f *failure) seen(ctx context.Context, rank int, c collective.Call) *jaccl.Error {
	return jaccl.Failed(ctx, rank, c, f.blame, f)
}

// near is seen for jobs with all ranks in this process.
func (f *failure) near(ctx context.Context, rank int, c collective.Call) *jaccl.Error {
	e := f.seen(ctx, rank, c)
	e.OneProcess = true
	return e
}

func failed(rank int, cause error) *failure {
	if cause == nil {
		cause = errors.New("no cause given")
	}
	return &failure{[]int{rank}, fmt.Sprintf("rank %d failed: %v", rank, cause), cause}
}

func gone(rank int) *failure {
	return &failure{[]int{rank}, fmt.Sprintf("rank %d has closed its communicator", rank), jaccl.ErrClosed}
}

func goneFrom(rank int, ranks []int) *failure {
	return &failure{[]int{rank}, fmt.Sprintf("rank %d has closed its end of the group of ranks %v", rank, ranks), jaccl.ErrClosed}
}

func busy(rank int, c collective.Call) *failure {
	return argument(rank, c, "another collective of the same group in progress, want one goroutine per rank at a time")
}

func argument(rank int, c collective.Call, format string, args ...any) *failure {
	return &failure{[]int{rank}, fmt.Sprintf("rank %d calls %s with ", rank, c) + fmt.Sprintf(format, args...), jaccl.ErrArgument}
}

func left(ctx context.Context, rank int, c collective.Call) *failure {
	cause := context.Cause(ctx)
	return &failure{[]int{rank}, fmt.Sprintf("rank %d left %s: %v", rank, c, cause), cause}
}

// late returns the failure of ranks that did not arrive. where has the known whereabouts
// of each of these ranks, "" if unknown.
func late(missing []int, where []string, c collective.Call, ranks []int, d time.Duration) *failure {
	text := ""
	for i, rank := range missing {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("rank %d", rank)
		if where[i] != "" {
			text += " (" + where[i] + ")"
		}
	}
	return &failure{missing, fmt.Sprintf("%s did not arrive within %v at %s among ranks %v", text, d, c, ranks), jaccl.ErrDeadline}
}
