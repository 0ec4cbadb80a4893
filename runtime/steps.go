package runtime

import (
	"context"
	"slices"
	"sync"

	"github.com/gomoe/gomoe/collective"
)

// steps is the state that a session keeps between steps, so that ranks run concurrently
// and can stop each other.
type steps struct {
	running sync.WaitGroup // ranks running on their workers
	errs    []error        // by rank

	mu    sync.Mutex
	first error // the first error not agreed on

	// ctx stops the ranks; it ends when the caller's context ends. It is kept while the
	// caller passes the same context, because making a context allocates memory.
	caller, ctx context.Context
	cancel      context.CancelCauseFunc
}

// call is one function for a rank's worker to run.
type call struct {
	ctx context.Context
	do  func(*rank, context.Context) error
}

// under returns a context ending with ctx, or when a rank fails.
func (s *steps) under(ctx context.Context) context.Context {
	if s.ctx == nil || s.ctx.Err() != nil || !same(s.caller, ctx) {
		s.forget()
		s.caller = ctx
		s.ctx, s.cancel = context.WithCancelCause(ctx)
	}
	return s.ctx
}

// same reports whether two contexts are equal. Contexts of incomparable types are never
// equal.
func same(a, b context.Context) (same bool) {
	defer func() { _ = recover() }()
	return a == b
}

// forget drops the reference to the caller's context.
func (s *steps) forget() {
	if s.ctx != nil {
		s.cancel(nil)
	}
	s.caller, s.ctx, s.cancel = nil, nil, nil
}

// each runs f for every rank of this process concurrently. It returns the first error,
// when all ranks are done.
//
// An error that is not agreed on stops the other ranks. An agreed error does not: the
// other ranks reach it by themselves, maybe after exchanges without the first rank. Among
// agreed errors, each returns the lowest rank's.
func (s *Session) each(ctx context.Context, f func(r *rank, ctx context.Context) error) error {
	t := &s.steps
	if len(s.ranks) > 1 || s.ranks[0].lane != nil { // there is something to stop
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
		s.renew()
		return t.first
	}
	for _, err := range t.errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// renew lets the next step run after a failure, if all ranks are here and have left their
// collectives, and no device may still run the step.
func (s *Session) renew() {
	if len(s.ranks) < s.plan.Mesh.Ranks() || slices.ContainsFunc(s.ranks, func(r *rank) bool { return r.hold.lost }) {
		return
	}
	if c, ok := s.ranks[0].comm.(collective.Renewer); ok {
		c.Renew()
	}
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
	r.settle()
}
