package mpi

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/gomoe/gomoe/internal/dynlib"
	"github.com/gomoe/gomoe/internal/wait"
)

// pauser paces the polls of one wait.
type pauser struct {
	wait.Waiter
	usleep uintptr
}

// sleepMoving is the time that a rank sleeps while data moves, because MPI moves data
// only when called. While waiting for a peer, sleeps become longer.
const sleepMoving = 20 * time.Microsecond

// newPauser returns a pauser using the C library's functions, because there may be more
// ranks than cores: Go's sleeps are rounded up to milliseconds, and Go's yield does not
// let other processes run.
func newPauser() (pauser, error) {
	yield, err := dynlib.C("sched_yield")
	if err != nil {
		return pauser{}, err
	}
	usleep, err := dynlib.C("usleep")
	return pauser{wait.New(wait.Policy{
		Spin: 20 * time.Microsecond, Least: 2 * time.Microsecond, SpinTurns: 256,
		Yield: 250 * time.Microsecond, Offer: func() { call(yield) }, YieldTurns: 1,
		Rest: sleepMoving, MaxRest: 500 * time.Microsecond,
	}), usleep}, err
}

// pause waits after a poll that found nothing.
func (p *pauser) pause(moving bool) {
	if p.Idle() != wait.Sleep {
		return
	}
	d := sleepMoving
	if !moving {
		d = p.Rest()
	}
	call(p.usleep, uintptr(d/time.Microsecond))
	runtime.Gosched() // for the other goroutines of this process
}

var errClosed = errors.New("mpi: the link is closed")

// wait tests a collective of the world until it ends.
func (w *World) wait(ctx context.Context, b *batch) error {
	p := w.pauser
	p.Begin()
	for {
		w.mu.Lock()
		ends, err := b.test(nil)
		w.mu.Unlock()
		if err != nil {
			w.keep(b)
			return err
		}
		for _, d := range ends {
			if d.code != 0 {
				w.keep(b)
				return w.lib.error("a collective", d.code)
			}
		}
		if len(b.what) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			w.keep(b)
			return context.Cause(ctx)
		}
		p.pause(false)
	}
}
