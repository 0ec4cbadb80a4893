// Package wait is how a rank that polls waits for its peers: it looks again and again,
// at first without leaving its processor, then lets others have the processor between
// two looks, and in the end says that it is time to sleep, which each transport does
// with what it has. Sooner is faster for one pair of ranks that have processors of
// their own; later is what lets a peer run that has none.
package wait

import (
	"runtime"
	"time"
)

// Policy says how long a transport's ranks wait in which way.
type Policy struct {
	// Spin is for how long at most a rank looks without leaving its processor. That
	// time halves, down to Least, when looking was in vain until others had the
	// processor, since the peer may wait for it, and doubles when it was not.
	Spin, Least time.Duration
	// Crowded says that there are more ranks than processors: the time begins at 0 and
	// does not double.
	Crowded bool
	// Yield is until when after the first look in vain others are let have the
	// processor between looks. After that a rank sleeps.
	Yield time.Duration
	// Offer lets other threads have the processor; nil if there are none to have it.
	Offer func()
	// SpinTurns and YieldTurns are how often a rank looks between two calls of Go's
	// scheduler, which other goroutines of the process may need; at least 1 where there is
	// such a time. A call wakes another thread, to look for work.
	SpinTurns, YieldTurns int
	// An Offer that takes longer than Late was taken by threads with work of their own,
	// rather than the peers' share of this processor. The next Calm waits then sleep at
	// once. A Late of 0 is never.
	Late time.Duration
	Calm int
	// Rest and MaxRest are the first and the longest sleep of a transport that nothing
	// wakes; see Waiter.Rest.
	Rest, MaxRest time.Duration
}

// Step is what a look in vain has led to.
type Step uint8

const (
	// First is the first look in vain since something moved.
	First Step = iota
	// Spun is to look again.
	Spun
	// Offered is that others have had the processor.
	Offered
	// Sleep is that it is time to sleep.
	Sleep
)

// Waiter is how one goroutine of a rank waits. It allocates nothing.
type Waiter struct {
	policy  Policy
	spin    time.Duration
	turns   int       // looks in vain since something moved
	since   time.Time // the first of them
	offered bool      // others have had the processor since then
	calm    int       // waits that sleep at once
	rest    time.Duration
}

// New returns a waiter of a policy.
func New(p Policy) Waiter {
	w := Waiter{policy: p, rest: p.Rest}
	if !p.Crowded {
		w.spin = p.Spin
	}
	return w
}

// Begin forgets a wait that was given up, or the last one of an operation, whose
// success says nothing about the next one.
func (w *Waiter) Begin() { w.turns, w.offered, w.rest = 0, false, w.policy.Rest }

// Moved is to be called after a look that found something.
func (w *Waiter) Moved() {
	switch {
	case w.offered:
		w.spin = max(w.spin/2, w.policy.Least)
	case w.turns > 1 && !w.policy.Crowded:
		w.spin = min(2*w.spin, w.policy.Spin)
	}
	w.Begin()
}

// Idle is to be called after a look in vain.
func (w *Waiter) Idle() Step {
	p := &w.policy
	if w.turns++; w.turns == 1 {
		w.since = time.Now()
		if w.calm = max(w.calm-1, 0); w.calm == 0 {
			return First
		}
	}
	// Not from time.Now: so an all_sum of 1 MiB over shm by two ranks on one core took
	// 200 µs rather than 174.
	idle := time.Since(w.since)
	switch {
	case w.calm > 0:
		return Sleep
	case idle < w.spin:
		if w.turns%p.SpinTurns == 0 {
			runtime.Gosched()
		}
		return Spun
	case idle < p.Yield:
		w.offered = true
		if w.turns%p.YieldTurns == 0 {
			runtime.Gosched()
		}
		if p.Offer != nil {
			p.Offer()
			if p.Late > 0 && time.Since(w.since)-idle > p.Late {
				w.calm = p.Calm
			}
		}
		return Offered
	}
	return Sleep
}

// Waited returns for how long nothing has moved.
func (w *Waiter) Waited() time.Duration {
	if w.turns == 0 {
		return 0
	}
	return time.Since(w.since)
}

// Since returns when the first look in vain was.
func (w *Waiter) Since() time.Time { return w.since }

// Rest returns how long to sleep: each time twice as long as before, until something
// moves.
func (w *Waiter) Rest() time.Duration {
	d := w.rest
	w.rest = min(2*d, w.policy.MaxRest)
	return d
}
