package rdma

import (
	"context"
	"time"

	"github.com/gomoe/gomoe/internal/wait"
	"github.com/gomoe/gomoe/jaccl/link"
)

// Work is what Drive is driven for.
type Work interface {
	// Moved is told of bytes of data that endpoint i has sent and received.
	Moved(i, sent, received int)
	// Step is called when something is complete. It may add flows, which it then
	// posts itself, and returns whether nothing is left to wait for.
	Step() (done bool, err error)
	// Alive returns why there is nothing to wait for any more: the link is closing, or a
	// peer is gone. For so long nothing has come.
	Alive(waited time.Duration) error
}

// Pace is how a rank waits, which nothing wakes up: ranks may be more than processors.
func (l *Library) Pace() wait.Waiter {
	return wait.New(wait.Policy{
		Spin: 20 * time.Microsecond, Least: 2 * time.Microsecond, SpinTurns: 256,
		Yield: time.Millisecond, Offer: func() { invoke(l.yield) }, YieldTurns: 1,
		Rest: 50 * time.Microsecond, MaxRest: 500 * time.Microsecond,
	})
}

// Grace is how long a rank that is gone is still waited for: it may have sent everything
// before it left, and the news that it left comes by a faster way than its data.
const Grace = 20 * time.Millisecond

// Drive polls until the work is done, fails, loses a peer that it waits for, or ctx
// ends.
func Drive(ctx context.Context, pace *wait.Waiter, eps []*Endpoint, w Work) error {
	for _, e := range eps {
		if err := e.Refill(); err != nil {
			return &link.PeerError{Peer: e.Peer, Err: err}
		}
	}
	if done, err := w.Step(); done || err != nil {
		return err
	}
	pace.Begin()
	step := wait.First
	for round := 1; ; round++ {
		busy := false
		for i, e := range eps {
			if e.Idle() {
				continue
			}
			n, err := e.pollOnce()
			if err != nil {
				return &link.PeerError{Peer: e.Peer, Err: err}
			}
			if n == 0 {
				continue
			}
			busy = true
			if e.sentBytes+e.receivedBytes > 0 {
				w.Moved(i, e.sentBytes, e.receivedBytes)
				e.sentBytes, e.receivedBytes = 0, 0
			}
		}
		if busy {
			if done, err := w.Step(); done || err != nil {
				return err
			}
			pace.Moved()
			step = wait.First
		}
		// After a look, and before others have the processor for a while, in which what
		// a peer that is gone now has sent may come.
		if step >= wait.Offered || round%256 == 0 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := w.Alive(pace.Waited()); err != nil {
				return err
			}
		}
		if busy {
			continue
		}
		if step = pace.Idle(); step == wait.Sleep {
			time.Sleep(pace.Rest())
		}
	}
}
