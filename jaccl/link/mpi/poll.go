package mpi

import (
	"context"
	"errors"
	"runtime"
	"time"
)

// How long a rank that waits goes without a pause, then with one for other threads of
// this processor, then asleep: short while data moves, since MPI moves it only when
// it is called, longer while a peer has not come. Ranks may be more than cores.
const (
	busyPolls   = 50
	yieldPolls  = 300
	sleepMoving = 20 * time.Microsecond
	sleepAbsent = 500 * time.Microsecond
)

// pauser paces the polls of one wait.
type pauser struct {
	yield, usleep uintptr
	idle          int // polls since something moved
}

// newPauser uses the C library's functions: Go's own sleeps are rounded up to
// milliseconds, and its yield does not reach other processes.
func newPauser() (pauser, error) {
	y, err := findC("sched_yield")
	if err != nil {
		return pauser{}, err
	}
	u, err := findC("usleep")
	return pauser{yield: y, usleep: u}, err
}

func (p *pauser) moved() { p.idle = 0 }

func (p *pauser) pause(moving bool) {
	p.idle++
	switch {
	case p.idle < busyPolls:
		return
	case p.idle < yieldPolls:
		call(p.yield)
	case moving:
		call(p.usleep, uintptr(sleepMoving/time.Microsecond))
	default:
		n := min(time.Duration(p.idle-yieldPolls+1)*sleepMoving, sleepAbsent)
		call(p.usleep, uintptr(n/time.Microsecond))
	}
	runtime.Gosched() // for the other goroutines of this process
}

var errClosed = errors.New("mpi: the link is closed")

// wait tests a collective of the world until it ends.
func (w *World) wait(ctx context.Context, b *batch) error {
	p := w.pauser
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
