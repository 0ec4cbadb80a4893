package rdma

import (
	"context"
	"runtime"
	"time"

	"github.com/gomoe/gomoe/jaccl/link"
)

// work is what drive is driven for.
type Work interface {
	// moved is told of bytes of data that endpoint i has sent and received.
	Moved(i, sent, received int)
	// step is called when something is complete. It may add flows, which it then
	// posts itself, and returns whether nothing is left to wait for.
	Step() (done bool, err error)
	// alive returns why there is nothing to wait for any more: the link is closing, or a
	// peer is gone. For so long nothing has come.
	Alive(waited time.Duration) error
}

// How a rank waits. Completions are looked for in a burst first, then with the
// processor offered to others in between, and after a while with sleep: ranks may be
// more than processors.
const (
	burst     = 100
	restAfter = time.Millisecond
	minRest   = 50 * time.Microsecond
	maxRest   = 500 * time.Microsecond
	// A peer that has closed may have sent everything before, which takes another way
	// than the news of it.
	Grace = 20 * time.Millisecond
)

// drive polls until the work is done, fails, loses a peer that it waits for, or ctx
// ends.
func Drive(ctx context.Context, lib *Library, eps []*Endpoint, w Work) error {
	for _, e := range eps {
		if err := e.Refill(); err != nil {
			return &link.PeerError{Peer: e.Peer, Err: err}
		}
	}
	if done, err := w.Step(); done || err != nil {
		return err
	}
	var idle int
	var since time.Time
	rest := minRest
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
			idle, rest = 0, minRest
			if round%256 != 0 {
				continue
			}
		} else if idle++; idle < burst {
			continue
		}
		if idle == burst {
			since = time.Now()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var waited time.Duration
		if !busy {
			waited = time.Since(since)
		}
		if err := w.Alive(waited); err != nil {
			return err
		}
		switch {
		case busy:
		case waited < restAfter:
			runtime.Gosched()
			if lib.yield != 0 {
				invoke(lib.yield)
			}
		default:
			time.Sleep(rest)
			rest = min(2*rest, maxRest)
		}
	}
}
