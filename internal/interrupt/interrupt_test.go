package interrupt

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"syscall"
)

// Only what ends because a signal has ended the context has the signal's status.
func TestStatus(t *testing.T) {
	told, end := context.WithCancelCause(context.Background())
	end(&SignalError{syscall.SIGTERM})
	other, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want int
	}{
		{told, fmt.Errorf("training: %w", context.Cause(told)), 143},
		{told, told.Err(), 143},
		{told, errors.New("no space left on device"), 1},
		{other, other.Err(), 1},
		{context.Background(), context.Canceled, 1},
	} {
		if got := Status(c.ctx, c.err, 1); got != c.want {
			t.Errorf("%v of %v: status %d, want %d", c.err, context.Cause(c.ctx), got, c.want)
		}
	}
}
