package runtime

import (
	"context"
	"sync"
)

// steps is what a session keeps from step to step so that ranks run at once and
// stop each other.
type steps struct {
	running sync.WaitGroup // ranks on their workers
	errs    []error        // by rank

	mu    sync.Mutex
	first error // that is not agreed on

	// ctx stops the ranks, and ends with the caller's. It serves for all steps of
	// one caller's context: to make one takes memory.
	caller, ctx context.Context
	cancel      context.CancelCauseFunc
}

// call is what a rank's worker runs.
type call struct {
	ctx context.Context
	do  func(*rank, context.Context) error
}

// under returns a context that ends with ctx, or when a rank fails.
func (s *steps) under(ctx context.Context) context.Context {
	if s.ctx == nil || s.ctx.Err() != nil || !same(s.caller, ctx) {
		s.forget()
		s.caller = ctx
		s.ctx, s.cancel = context.WithCancelCause(ctx)
	}
	return s.ctx
}

// same reports whether two contexts are one; of types that cannot be compared they
// are not.
func same(a, b context.Context) (same bool) {
	defer func() { _ = recover() }()
	return a == b
}

// forget lets go of the caller's context.
func (s *steps) forget() {
	if s.ctx != nil {
		s.cancel(nil)
	}
	s.caller, s.ctx, s.cancel = nil, nil, nil
}

// each runs f for every rank of this process at once and returns the first
// error, when all are done.
//
// An error that is not agreed on stops the other ranks. An agreed one does not:
// they come to it by themselves, maybe after exchanges that the first of them
// has no part in. Of those the lowest rank's is returned.
func (s *Session) each(ctx context.Context, f func(r *rank, ctx context.Context) error) error {
	t := &s.steps
	if len(s.ranks) > 1 || s.ranks[0].lane != nil { // something is there to be stopped
		ctx = t.under(ctx)
	}
	if t.errs == nil {
		t.errs = make([]error, len(s.ranks))
	}
	t.first = nil
	c := call{ctx, f}
	for _, r := range s.ranks[1:] {
		t.running.Add(1)
		r.worker.call(c)
	}
	s.one(0, c)
	t.running.Wait()
	if t.first != nil {
		return t.first
	}
	for _, err := range t.errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// one runs a call for the i-th rank of this process.
func (s *Session) one(i int, c call) {
	t, r := &s.steps, s.ranks[i]
	err := c.do(r, c.ctx)
	t.errs[i] = err
	if err != nil && !agreed(err) {
		t.mu.Lock()
		if t.first == nil {
			t.first = err
			r.comm.Fail(err) // before cancel, so that ranks elsewhere learn the cause
			if t.cancel != nil {
				t.cancel(err)
			}
		}
		t.mu.Unlock()
	}
	r.lane.settle()
	r.remote.settle(r)
}
