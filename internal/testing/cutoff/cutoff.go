// Package cutoff tests the errors of dialers after their context ends.
package cutoff

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// early is a context with a deadline passing before it ends: at the 8th call of Deadline
// it has passed, at the 14th the context ends.
type early struct {
	context.Context
	asked *atomic.Int64
	end   context.CancelCauseFunc
}

func (c early) Deadline() (time.Time, bool) {
	switch n := c.asked.Add(1); {
	case n < 8:
		return time.Now().Add(time.Minute), true
	case n == 14:
		c.end(errors.New("it is over"))
	}
	return time.Unix(1, 0), true
}

// Check tests that a dialer that sees the deadline before the context ends reports why
// there was no connection. dial connects to an address without a listener.
func Check(t *testing.T, dial func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	err := dial(early{ctx, new(atomic.Int64), cancel})
	if err == nil || !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), "it is over") || strings.Contains(err.Error(), "timeout") {
		t.Errorf("%v, want that the connection was refused, until it is over", err)
	}
}
