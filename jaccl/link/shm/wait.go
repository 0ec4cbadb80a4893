//go:build linux || darwin

package shm

import (
	"context"
	"time"

	"github.com/gomoe/gomoe/internal/wait"
)

// pace returns the polling policy of a rank without work. The rank does not call Go's
// scheduler after every poll, because that wakes another thread: with 4 ranks on 2
// processors an all_sum of 4 KiB took 25 µs with a call every time, and 11 µs with this
// policy.
func pace(crowded bool) wait.Policy {
	return wait.Policy{
		Spin: 20 * time.Microsecond, Least: 500 * time.Nanosecond, Crowded: crowded, SpinTurns: 256,
		Yield: 500 * time.Microsecond, Offer: yield, YieldTurns: 8,
	}
}

// paceInside is pace for a rank with peers in the same process: these run only if this rank
// calls Go's scheduler.
func paceInside() wait.Policy {
	p := pace(true)
	p.Offer, p.YieldTurns = nil, 1
	return p
}

// sleepFor is the longest sleep. After it the rank polls again.
const sleepFor = 50 * time.Millisecond

// waiter is the state of one exchange's waiting.
type waiter struct {
	ctx    context.Context
	asleep bool          // the peers have been told that they have to ring
	seen   uint32        // the bell's value when the rank announced its sleep
	unhook func() bool   // keeps the end of ctx from ringing the bell; nil if it would not
	rang   chan struct{} // closed when the end of ctx has rung the bell
}

func (l *transport) waiter(ctx context.Context) waiter {
	l.pace.Begin()
	return waiter{ctx: ctx}
}

func (w *waiter) stop() {
	if w.unhook != nil && !w.unhook() {
		<-w.rang // the bell may be unmapped after this
	}
}

// next returns when it is time to poll again: at once if something has moved.
func (w *waiter) next(l *transport, moved bool) {
	if moved {
		l.pace.Moved()
		w.wake(l)
		return
	}
	if !w.asleep {
		if l.pace.Idle() != wait.Sleep {
			return
		}
		if w.unhook == nil {
			w.rang = make(chan struct{})
			w.unhook = context.AfterFunc(w.ctx, bellRinger(l.own, w.rang))
		}
		w.seen = l.own.bell().Load()
		l.own.asleep().Store(1)
		w.asleep = true
		return // look once more: a peer may have stored something before it saw asleep
	}
	futexWait(l.own.bell(), w.seen, sleepFor)
	w.wake(l)
}

// wake tells the peers that they need not ring any more, if they were told to ring.
func (w *waiter) wake(l *transport) {
	if w.asleep {
		w.asleep = false
		l.own.asleep().Store(0)
	}
}

// bellRinger returns a function that rings a segment's bell and then closes done. If the
// function were a closure in next, every waiter would escape to the heap.
func bellRinger(s *segment, done chan<- struct{}) func() {
	return func() {
		s.ringBell()
		close(done)
	}
}
