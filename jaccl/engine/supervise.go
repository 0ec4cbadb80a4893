package engine

import (
	"context"
	"errors"
	"time"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/link"
)

// tick is the interval at which the supervisor checks an operation in progress. An
// operation may end this much later than its deadline, or later than its context if no
// operation before it had the same context.
const tick = 10 * time.Millisecond

// errLate is the supervisor's cause for ending an exchange making no progress.
var errLate = errors.New("jaccl: no progress")

// underWay is the operation in progress. An operation takes microseconds, so neither its
// start nor its end allocates memory, sets a timer or, mostly, wakes a goroutine.
type underWay struct {
	ctx  context.Context // the caller's; nil if no operation is in progress
	g    *linkGroup      // the operation's group
	pair [2]int          // the ranks needed by a pairwise operation
	two  bool            // the operation is pairwise: it needs only the ranks in pair
	x    *link.Exchange  // the exchange in progress, or the last one; nil before the first
	turn uint64          // counts operations and exchanges
	idle bool            // the supervisor waits for wake
}

// begin puts the operation p of group g under supervision, until finish.
func (e *engine) begin(ctx context.Context, g *linkGroup, p *post) {
	e.mu.Lock()
	g.count(p)
	e.op.ctx, e.op.g, e.op.pair, e.op.two = ctx, g, [2]int{p.to, p.from}, pairwise(p.call.Op)
	e.op.turn++
	idle := e.op.idle
	e.op.idle = false
	e.mu.Unlock()
	if idle {
		e.wake <- struct{}{} // does not block: the supervisor takes one wake-up each time it is idle
	}
}

// finish ends the supervision started by begin.
func (e *engine) finish() {
	e.mu.Lock()
	e.op.ctx, e.op.g, e.op.x = nil, nil, nil
	e.mu.Unlock()
}

// exchange runs one exchange of the operation in progress.
func (e *engine) exchange(x *link.Exchange) error {
	e.mu.Lock()
	e.op.x = x
	e.op.turn++
	e.mu.Unlock()
	return e.link.Exchange(e.ctx, x)
}

// supervise ends the operation in progress when its context ends, when making no progress
// for the deadline, and when a failure is known. It runs until Close.
func (e *engine) supervise() {
	defer close(e.ended)
	timer := time.NewTimer(tick)
	timer.Stop()
	var turn uint64
	var moved int64
	var since, last time.Time // of the last progress, and of the last check
	for {
		e.mu.Lock()
		op := e.op
		e.op.idle = op.ctx == nil
		e.mu.Unlock()
		if op.ctx == nil {
			select {
			case <-e.wake:
			case <-e.quit:
				return
			}
			continue
		}
		now, m := time.Now(), int64(0)
		if slept := now.Sub(last); slept > jaccl.Pause {
			since = since.Add(slept)
		}
		last = now
		if op.x != nil {
			m = op.x.Moved()
		}
		if op.turn != turn || m != moved || since.IsZero() {
			turn, moved, since = op.turn, m, now
		}
		if f := e.deserted(); f != nil {
			e.interrupt(f)
			<-e.quit
			return
		}
		rest := e.deadline - now.Sub(since)
		if rest <= 0 {
			e.interrupt(errLate)
			<-e.quit
			return
		}
		timer.Reset(min(tick, rest))
		select {
		case <-timer.C:
		case <-op.ctx.Done():
			timer.Stop()
			e.mu.Lock()
			if e.op.ctx == op.ctx { // otherwise the operation has ended, and no later one can begin with this context
				e.interrupt(context.Cause(op.ctx))
			}
			e.mu.Unlock()
			timer.Reset(tick)
			<-timer.C
		case <-e.watch.Down():
			e.interrupt(errDown)
			<-e.quit
			return
		case <-e.quit:
			return
		}
	}
}

// errDown is the supervisor's cause for ending an exchange when the watch knows of a
// failure.
var errDown = errors.New("jaccl: a rank has failed")
