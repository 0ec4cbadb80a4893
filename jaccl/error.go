package jaccl

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/collective"
)

// The kinds of failure that an Error wraps. It may also wrap the cause of a context
// or the cause given to Fail.
var (
	// ErrMismatch: members of a group called different operations, or passed buffers with
	// lengths that do not match.
	ErrMismatch = errors.New("jaccl: ranks disagree on a collective")
	// ErrDeadline: members did not arrive in time.
	ErrDeadline = errors.New("jaccl: rank did not arrive before the deadline")
	// ErrClosed: a member has closed its communicator.
	ErrClosed = errors.New("jaccl: communicator is closed")
	// ErrLost: a rank's process has ended, or its machine does not answer.
	ErrLost = errors.New("jaccl: rank is lost")
	// ErrUnsupported: the transport does not implement the operation.
	ErrUnsupported = errors.New("jaccl: operation that the transport does not have")
	// ErrArgument: the caller's own arguments do not fit the operation.
	ErrArgument = errors.New("jaccl: unusable argument")
)

// Error is the error of a collective that failed on one rank.
type Error struct {
	Rank  int             // the rank that got this error
	Call  collective.Call // the call of that rank
	Blame []int           // ranks of the job that caused the failure
	Err   error           // the job's first failure
	// Outstanding is the number of bytes of the exchange in progress not yet sent to, or
	// received from, other ranks. It is 0 for ranks sharing memory.
	Outstanding int64
}

// Failed returns the error of a rank after its call c has failed with err; blame are the
// ranks at fault. If ctx has ended as well, the error wraps both causes, because their
// order is chance.
func Failed(ctx context.Context, rank int, c collective.Call, blame []int, err error) *Error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w, and the context of rank %d ended: %w", err, rank, cause)
	}
	return &Error{Rank: rank, Call: c, Blame: slices.Clone(blame), Err: err}
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%v; seen by rank %d in %s", e.Err, e.Rank, e.Call)
	if e.Outstanding > 0 {
		text += fmt.Sprintf(", %d bytes outstanding", e.Outstanding)
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }
