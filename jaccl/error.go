package jaccl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomoe/gomoe/collective"
)

// The kinds of failure that an Error wraps, besides the cause of a context and
// the cause given to Fail.
var (
	// ErrMismatch: members of a group called different operations, or gave
	// buffers whose lengths do not fit together.
	ErrMismatch = errors.New("jaccl: ranks disagree on a collective")
	// ErrDeadline: members did not arrive in time.
	ErrDeadline = errors.New("jaccl: rank did not arrive before the deadline")
	// ErrClosed: a member has closed its communicator.
	ErrClosed = errors.New("jaccl: communicator is closed")
	// ErrLost: a rank's process has ended, or its machine does not answer.
	ErrLost = errors.New("jaccl: rank is lost")
	// ErrUnsupported: the transport has no such operation.
	ErrUnsupported = errors.New("jaccl: operation that the transport does not have")
	// ErrArgument: the caller's own buffers can not be those of the operation.
	ErrArgument = errors.New("jaccl: unusable argument")
)

// Error is a collective that failed on one rank.
type Error struct {
	Rank  int             // the rank that got this error
	Call  collective.Call // what it called
	Blame []int           // ranks of the job that caused the failure
	Err   error           // the job's first failure
	// Outstanding is how many bytes of the exchange at hand had not been sent to others
	// or not come from them. Ranks that share memory exchange none.
	Outstanding int64
}

func (e *Error) Error() string {
	text := fmt.Sprintf("jaccl: %v; seen by rank %d in %s", e.Err, e.Rank, e.Call)
	if e.Outstanding > 0 {
		text += fmt.Sprintf(", %d bytes outstanding", e.Outstanding)
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// failure is what poisons a job. It is shared by the errors of all ranks.
type failure struct {
	blame []int
	text  string
	err   error // a kind of failure or the user's cause
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.err }

func failed(rank int, cause error) *failure {
	if cause == nil {
		cause = errors.New("no cause given")
	}
	return &failure{[]int{rank}, fmt.Sprintf("rank %d failed: %v", rank, cause), cause}
}

func gone(rank int) *failure {
	return &failure{[]int{rank}, fmt.Sprintf("rank %d has closed its communicator", rank), ErrClosed}
}

func goneFrom(rank int, ranks []int) *failure {
	return &failure{[]int{rank}, fmt.Sprintf("rank %d has closed its end of the group of ranks %v", rank, ranks), ErrClosed}
}

func busy(rank int, c collective.Call) *failure {
	return argument(rank, c, "another collective of the same group in progress, want one goroutine per rank at a time")
}

func argument(rank int, c collective.Call, format string, args ...any) *failure {
	return &failure{[]int{rank}, fmt.Sprintf("rank %d calls %s with ", rank, c) + fmt.Sprintf(format, args...), ErrArgument}
}

func left(ctx context.Context, rank int, c collective.Call) *failure {
	cause := context.Cause(ctx)
	return &failure{[]int{rank}, fmt.Sprintf("rank %d left %s: %v", rank, c, cause), cause}
}

// late is about the missing ranks; where says of each what is known of it.
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
	return &failure{missing, fmt.Sprintf("%s did not arrive within %v at %s among ranks %v", text, d, c, ranks), ErrDeadline}
}
