package verbs

import (
	"context"
	"github.com/gomoe/gomoe/jaccl/link"
	"runtime"
	"time"
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
	grace = 20 * time.Millisecond
)

// drive polls until the work is done, fails, loses a peer that it waits for, or ctx
// ends.
func drive(ctx context.Context, lib *library, eps []*endpoint, w work) error {
	for _, e := range eps {
		if err := e.refill(); err != nil {
			return &link.PeerError{Peer: e.peer, Err: err}
		}
	}
	if done, err := w.step(); done || err != nil {
		return err
	}
	var idle int
	var since time.Time
	rest := minRest
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
		if err := w.alive(waited); err != nil {
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
