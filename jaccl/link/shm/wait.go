//go:build linux || darwin

package shm

import (
	"context"
	"runtime"
	"time"

	"github.com/gomoe/gomoe/jaccl/link"
)

// How long a rank that finds nothing to do goes on looking: at first without
// leaving its processor, then letting others have it, then asleep in the kernel.
// The first time is at most spinFor. It halves when looking was in vain until
// others had the processor, since the peer may wait for it, and doubles when it
// was not.
const (
	spinFor   = 20 * time.Microsecond
	spinLeast = 500 * time.Nanosecond
	yieldFor  = 500 * time.Microsecond
	// sleepFor bounds a sleep, after which peers are asked for signs of life.
	sleepFor = 50 * time.Millisecond

	// spinTurns and yieldTurns are how often a waiting rank looks between two calls
	// of Go's scheduler, which other goroutines of the process may need. It is not
	// called each time because it wakes another thread, to look for work: with 4
	// ranks on 2 processors an all_sum of 4 KiB took 25 µs so, and 11 µs with these.
	spinTurns  = 256
	yieldTurns = 8
)

// waiter is how one exchange waits.
type waiter struct {
	ctx    context.Context
	turns  int       // without anything done
	since  time.Time // when they began
	gone   bool      // others have had the processor
	asleep bool      // the peers know that they have to ring
	seen   uint32    // the bell, when that was said
	unhook func() bool
	rang   chan struct{} // closed when the context's end has rung the bell
}

func (l *transport) waiter(ctx context.Context) waiter {
	return waiter{ctx: ctx}
}

func (w *waiter) stop() {
	if w.unhook != nil && !w.unhook() {
		<-w.rang // the bell may be unmapped after this
	}
}

// next returns when it is time to look again. Its error is about a peer that is
// no more.
func (w *waiter) next(l *transport, x *link.Exchange, moved bool) error {
	if moved {
		switch {
		case w.gone:
			l.spin = max(l.spin/2, spinLeast)
		case w.turns > 1 && !l.crowded:
			l.spin = min(2*l.spin, spinFor)
		}
		w.turns, w.gone = 0, false
		if w.asleep {
			w.asleep = false
			l.own.asleep().Store(0)
		}
		return nil
	}
	if w.turns++; w.turns == 1 {
		w.since = time.Now()
		return nil
	}
	if !w.asleep {
		idle := time.Since(w.since)
		if idle < l.spin {
			if w.turns%spinTurns == 0 {
				runtime.Gosched()
			}
			return nil
		}
		if idle < yieldFor {
			w.gone = true
			if l.inside || w.turns%yieldTurns == 0 {
				runtime.Gosched()
			}
			if !l.inside {
				yield()
			}
			return nil
		}
		if w.unhook == nil {
			w.rang = make(chan struct{})
			w.unhook = context.AfterFunc(w.ctx, bellRinger(l.own, w.rang))
		}
		w.seen = l.own.bell().Load()
		l.own.asleep().Store(1)
		w.asleep = true
		return nil // to look once more: a peer may not have seen that
	}
	rung := futexWait(l.own.bell(), w.seen, sleepFor)
	w.asleep = false
	l.own.asleep().Store(0)
	if rung {
		return nil
	}
	for _, rank := range x.Peers {
		p := l.peers[rank]
		if !p.needed() {
			continue
		}
		if err := p.life.check(); err != nil {
			// It may have written what was missing, or closed, before it ended.
			if moved, finished, swept := l.sweep(x); swept != nil || moved || finished {
				return swept
			}
			return l.lost(rank, err)
		}
	}
	return nil
}

// bellRinger returns what rings a segment's bell and then closes done. As a closure
// in next it would have every waiter allocated.
func bellRinger(s *segment, done chan<- struct{}) func() {
	return func() {
		s.ringBell()
		close(done)
	}
}
