package mesh

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// early is a context whose deadline passes before it ends: at the 8th question for the
// deadline it has passed, at the 14th the context ends.
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

// A dialer that sees the deadline before the context ends does not hide why there was no
// connection.
func TestCutOff(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close() // nobody listens there any more
	ctx, cancel := context.WithCancelCause(t.Context())
	err = (&sideChannel{rank: 1, size: 2, conns: make([]net.Conn, 2)}).dial(early{ctx, new(atomic.Int64), cancel}, ln.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), "it is over") || strings.Contains(err.Error(), "timeout") {
		t.Errorf("%v, want that the connection was refused, until it is over", err)
	}
}
