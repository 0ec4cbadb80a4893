// Package wait implements the waiting of a rank polling for its peers. At first the rank
// polls continuously without leaving its processor. Then it yields the processor to
// others between two polls. In the end it sleeps; each transport sleeps in its own way.
// Long spinning is faster for ranks with processors of their own. Yielding early lets a
// peer without one run.
package wait

import (
	"runtime"
	"time"
)

// Policy sets the times that a transport's ranks wait in each way.
type Policy struct {
	// Spin is the longest time that a rank polls without leaving its processor. The time
	// halves, down to Least, when polling found nothing until others had the processor,
	// because the peer may be waiting for it. It doubles when polling succeeded.
	Spin, Least time.Duration
	// Crowded: there are more ranks than processors. The spinning time then begins at 0
	// and does not double.
	Crowded bool
	// Yield is the time after the first failed poll during which a rank yields the
	// processor between polls. After that it sleeps.
	Yield time.Duration
	// Offer yields the processor to other threads; nil if there is no such call.
	Offer func()
	// SpinTurns and YieldTurns are the numbers of polls between two calls of Go's
	// scheduler, which other goroutines of the process may need. Each must be at least 1
	// if its phase has any time. A call of the scheduler wakes another thread, which
	// looks for work.
	SpinTurns, YieldTurns int
	// If an Offer takes longer than Late, other threads with work of their own have used
	// the processor, and not only this processor's peers. The next Calm waits then sleep
	// at once. Late 0 means never.
	Late time.Duration
	Calm int
	// Rest and MaxRest are the first and the longest sleep of a transport that cannot be
	// woken; see Waiter.Rest.
	Rest, MaxRest time.Duration
}

// Step is the action after a failed poll.
type Step uint8

const (
	// First: this was the first failed poll since something moved.
	First Step = iota
	// Spun: poll again.
	Spun
	// Offered: others have had the processor.
	Offered
	// Sleep: it is time to sleep.
	Sleep
)

// Waiter is the waiting state of one goroutine of a rank. It allocates nothing.
type Waiter struct {
	policy  Policy
	spin    time.Duration
	turns   int       // number of failed polls since something moved
	since   time.Time // time of the first of them
	offered bool      // others have had the processor since then
	calm    int       // number of coming waits sleeping at once
	rest    time.Duration
}

// New returns a waiter with the policy.
func New(p Policy) Waiter {
	w := Waiter{policy: p, rest: p.Rest}
	if !p.Crowded {
		w.spin = p.Spin
	}
	return w
}

// Begin starts over, after an abandoned wait or after the last wait of an operation. The
// outcome of that wait does not predict the next one.
func (w *Waiter) Begin() { w.turns, w.offered, w.rest = 0, false, w.policy.Rest }

// Moved must be called after a successful poll.
func (w *Waiter) Moved() {
	switch {
	case w.offered:
		w.spin = max(w.spin/2, w.policy.Least)
	case w.turns > 1 && !w.policy.Crowded:
		w.spin = min(2*w.spin, w.policy.Spin)
	}
	w.Begin()
}

// Idle must be called after a failed poll. It returns the next action.
func (w *Waiter) Idle() Step {
	p := &w.policy
	if w.turns++; w.turns == 1 {
		w.since = time.Now()
		if w.calm = max(w.calm-1, 0); w.calm == 0 {
			return First
		}
	}
	// time.Since and not time.Now: with time.Now, an all_sum of 1 MiB over shm by two
	// ranks on one core took 200 µs rather than 174.
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

// Waited returns the time since something last moved.
func (w *Waiter) Waited() time.Duration {
	if w.turns == 0 {
		return 0
	}
	return time.Since(w.since)
}

// Since returns the time of the first failed poll.
func (w *Waiter) Since() time.Time { return w.since }

// Rest returns the time to sleep: twice as long each time, until something moves.
func (w *Waiter) Rest() time.Duration {
	d := w.rest
	w.rest = min(2*d, w.policy.MaxRest)
	return d
}
