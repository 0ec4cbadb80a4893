package mesh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/mlx/headless"
	"github.com/gomoe/gomoe/jaccl/rdma"
)

// goneGrace is the time that an operation continues after one of its ranks has gone, if
// this rank does not wait for that rank: it may have sent all of its part before ending.
// If nothing moves for this long, the other ranks probably wait for the one that is gone.
const goneGrace = time.Second

// operation is a collective in progress. It implements rdma.Work.
type operation struct {
	c    *comm
	call collective.Call
	eps  []*rdma.Endpoint                // the endpoints taking part, of all wires
	then []func() (done bool, err error) // handle arriving messages
	late time.Duration                   // the deadline

	waited, paused time.Duration // at the last look: the time without progress, and the part of it during which this process was stopped
}

// run calls f with the communicator's lock. f runs the steps of an operation one after
// another. bad is the failure of a call with wrong arguments, nil for a correct call. The
// first error becomes the job's failure.
func (g *group) run(ctx context.Context, call collective.Call, bad *headless.FailureError, f func(o *operation) error) error {
	c := g.c
	c.mu.Lock()
	defer c.mu.Unlock()
	wrap := func(f *headless.FailureError) error {
		return &jaccl.Error{Rank: c.rank, Call: call, Blame: f.Blame, Err: f}
	}
	if c.closed || c.closing.Load() {
		return wrap(c.left())
	}
	if g.closed.Load() { // concerns only this rank, and does not end the job
		return wrap(&headless.FailureError{Blame: []int{c.rank}, Text: fmt.Sprintf("rank %d has closed its group of ranks %v", c.rank, g.Members), Err: jaccl.ErrClosed})
	}
	if first := c.party.first.Load(); first != nil {
		return wrap(first)
	}
	if bad != nil {
		return wrap(c.party.fail(bad))
	}
	o := &operation{c: c, call: call, late: c.deadline}
	if err := ctx.Err(); err != nil {
		return wrap(o.fail(ctx, context.Cause(ctx)))
	}
	if err := f(o); err != nil {
		return wrap(o.fail(ctx, err))
	}
	return nil
}

func (c *comm) left() *headless.FailureError {
	return &headless.FailureError{Blame: []int{c.rank}, Text: fmt.Sprintf("rank %d has closed its communicator", c.rank), Err: jaccl.ErrClosed}
}

// drive sends and receives until the steps are done.
func (o *operation) drive(ctx context.Context, steps []step) error {
	o.eps, o.then = nil, nil
	for _, s := range steps {
		o.eps = append(o.eps, s.eps...)
		if s.then != nil {
			o.then = append(o.then, s.then)
		}
	}
	if err := rdma.Drive(ctx, &o.c.pace, o.eps, o); err != nil {
		return err
	}
	for _, e := range o.eps {
		e.Sending.Reset()
		e.Receiving.Reset()
	}
	return nil
}

func (o *operation) Moved(i, sent, received int) {}

func (o *operation) Step() (bool, error) {
	all := true
	for _, then := range o.then {
		done, err := then()
		if err != nil {
			return false, err
		}
		all = all && done
	}
	if !all {
		return false, nil
	}
	for _, e := range o.eps {
		if !e.Idle() {
			return false, nil
		}
	}
	return true, nil
}

func (o *operation) Alive(waited time.Duration) error {
	if o.c.closing.Load() {
		return o.c.left()
	}
	if f := o.c.party.first.Load(); f != nil {
		return f
	}
	switch since := waited - o.waited; {
	case since < 0: // something has moved
		o.paused = 0
	case since > jaccl.Pause:
		o.paused += since
	}
	o.waited = waited
	if waited-o.paused > o.late {
		return o.overdue()
	}
	if waited < rdma.Grace {
		return nil
	}
	for _, e := range o.eps {
		if f := o.c.party.gone[e.Peer].Load(); f != nil && (!e.Idle() || waited > goneGrace) {
			return f
		}
	}
	return nil
}

// overdue returns the failure of an operation without progress for the deadline. It lists
// the data that has not arrived and the data that could not be sent.
func (o *operation) overdue() *headless.FailureError {
	f := &headless.FailureError{Err: jaccl.ErrDeadline}
	for peer := range o.c.size {
		idle, in, out := true, 0, 0
		for _, e := range o.eps {
			if e.Peer == peer {
				idle, in, out = idle && e.Idle(), in+e.Receiving.Outstanding(), out+e.Sending.Outstanding()
			}
		}
		if !idle {
			f.Blame = append(f.Blame, peer)
			f.Text += fmt.Sprintf("rank %d (%d bytes to come from it, %d to go to it), ", peer, in, out)
		}
	}
	if f.Blame == nil {
		f.Blame = []int{o.c.rank}
	}
	f.Text += fmt.Sprintf("nothing has moved for %v in %s on rank %d", o.late, o.call, o.c.rank)
	return f
}

// fail makes an error of drive the job's failure, unless the job has failed before,
// returning the job's failure.
func (o *operation) fail(ctx context.Context, err error) *headless.FailureError {
	var f *headless.FailureError
	var peer *link.PeerError
	switch {
	case errors.As(err, &f):
		return o.c.party.fail(f)
	case errors.As(err, &peer):
		f = &headless.FailureError{Blame: []int{peer.Peer}, Text: fmt.Sprintf("on rank %d: %v", o.c.rank, err), Err: err}
	case ctx.Err() != nil:
		f = &headless.FailureError{Blame: []int{o.c.rank}, Text: fmt.Sprintf("rank %d left %s: %v", o.c.rank, o.call, err), Err: err}
	default:
		f = &headless.FailureError{Blame: []int{o.c.rank}, Text: fmt.Sprintf("rank %d in %s: %v", o.c.rank, o.call, err), Err: err}
	}
	return o.c.party.fail(f)
}
