package verbs

import (
	"context"
	"time"

	"github.com/gomoe/gomoe/internal/wait"
	"github.com/gomoe/gomoe/jaccl/link"
)

// work is what drive is driven for.
type work interface {
	// moved is told of bytes of data that endpoint i has sent and received.
	moved(i, sent, received int)
	// step is called when something is complete. It may add flows, which it then
	// posts itself, and returns whether nothing is left to wait for.
	step() (done bool, err error)
	// alive returns why there is nothing to wait for any more: the link is closing, or a
	// peer is gone. For so long nothing has come.
	alive(waited time.Duration) error
}

// pace is how a rank waits, which nothing wakes up: ranks may be more than processors.
func (l *library) pace() wait.Waiter {
	return wait.New(wait.Policy{
		Spin: 20 * time.Microsecond, Least: 2 * time.Microsecond, SpinTurns: 256,
		Yield: time.Millisecond, Offer: func() { invoke(l.yield) }, YieldTurns: 1,
		Rest: 50 * time.Microsecond, MaxRest: 500 * time.Microsecond,
	})
}

// A peer that has closed may have sent everything before, which takes another way
// than the news of it.
const grace = 20 * time.Millisecond

// drive polls until the work is done, fails, loses a peer that it waits for, or ctx
// ends.
func drive(ctx context.Context, pace *wait.Waiter, eps []*endpoint, w work) error {
	for _, e := range eps {
		if err := e.refill(); err != nil {
			return &link.PeerError{Peer: e.peer, Err: err}
		}
	}
	if done, err := w.step(); done || err != nil {
		return err
	}
	pace.Begin()
	step := wait.First
	for round := 1; ; round++ {
		busy := false
		for i, e := range eps {
			if e.idle() {
				continue
			}
			n, err := e.pollOnce()
			if err != nil {
				return &link.PeerError{Peer: e.peer, Err: err}
			}
			if n == 0 {
				continue
			}
			busy = true
			if e.sentBytes+e.receivedBytes > 0 {
				w.moved(i, e.sentBytes, e.receivedBytes)
				e.sentBytes, e.receivedBytes = 0, 0
			}
		}
		if busy {
			if done, err := w.step(); done || err != nil {
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
			if err := w.alive(pace.Waited()); err != nil {
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
