package rdma

import (
	"context"
	"time"

	"github.com/gomoe/gomoe/internal/wait"
	"github.com/gomoe/gomoe/jaccl/link"
)

// Work is the work driven by Drive.
type Work interface {
	// Moved reports that endpoint i has sent and received this many bytes of data.
	Moved(i, sent, received int)
	// Step is called at the beginning and when messages are complete. It may add flows,
	// which it must then post itself. done reports that the work is complete.
	Step() (done bool, err error)
	// Alive returns an error if waiting is useless, because the link is closing or a peer
	// is gone. waited is the time without progress.
	Alive(waited time.Duration) error
}

// Pace returns the polling policy of a waiting rank. Nothing wakes a waiting rank, and
// there may be more ranks than processors.
func (l *Library) Pace() wait.Waiter {
	return wait.New(wait.Policy{
		Spin: 20 * time.Microsecond, Least: 2 * time.Microsecond, SpinTurns: 256,
		Yield: time.Millisecond, Offer: func() { invoke(l.yield) }, YieldTurns: 1,
		Rest: 50 * time.Microsecond, MaxRest: 500 * time.Microsecond,
	})
}

// Grace is the time that ranks wait for the data of a rank that is gone. It may have sent
// everything before leaving, and the news of its departure may arrive before its data.
const Grace = 20 * time.Millisecond

// Drive polls the endpoints until the work is done or ctx ends. The error is a
// *link.PeerError if an endpoint fails, or else the error of w or the cause of ctx's end.
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
		busy, done, err := poll(eps, w)
		if done || err != nil {
			return err
		}
		if busy {
			pace.Moved()
			step = wait.First
		}
		// Look at ctx and w before other processes get the processor, not after that: a
		// peer that is gone by then may have sent data in the meantime, which has to be
		// polled first.
		if step >= wait.Offered || round%256 == 0 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if gone := w.Alive(pace.Waited()); gone != nil {
				// A peer may have sent all its data and left since the last poll.
				for {
					busy, done, err := poll(eps, w)
					if done || err != nil {
						return err
					}
					if !busy {
						return gone
					}
				}
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

// poll polls every endpoint that is not idle once, and takes a step if something has moved.
func poll(eps []*Endpoint, w Work) (busy, done bool, err error) {
	for i, e := range eps {
		if e.Idle() {
			continue
		}
		n, err := e.pollOnce()
		if err != nil {
			return false, false, &link.PeerError{Peer: e.Peer, Err: err}
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
		done, err = w.Step()
	}
	return busy, done, err
}
