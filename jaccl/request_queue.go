package jaccl

import (
	"context"
	"fmt"
	"sync"
)

// RequestQueue runs operations of a communicator asynchronously: one after another, in
// the order of the calls of Do, while the goroutine calling Do goes on.
//
//	var q jaccl.RequestQueue
//	defer q.Close()
//	r := q.Do(ctx, func(ctx context.Context) error { return g.AllSum(ctx, call, sum, grad) })
//	...                      // work that neither reads sum nor writes grad
//	err := r.Wait(ctx)
//
// An operation owns its buffers until it is done. A communicator runs one operation at a
// time, so all of its operations go through one queue, or are called directly while the
// queue is empty. After an operation has failed, later ones are not run and fail with the
// same error.
//
// The zero RequestQueue is usable. Its goroutine runs only while there are operations.
// Several goroutines may call the methods at once; the order is then up to them.
type RequestQueue struct {
	mu      sync.Mutex
	waiting []*Request
	cancel  context.CancelCauseFunc // of the operation in progress
	running bool                    // the goroutine runs
	closed  bool
	err     error          // of the first operation that failed, or of Close
	idle    sync.WaitGroup // the goroutine
}

// Request is an operation that has been given to a RequestQueue.
type Request struct {
	ctx  context.Context
	op   func(context.Context) error
	done chan struct{}
	err  error // valid when done is closed
}

// Do appends op to the queue and does not block. The queue calls op after all earlier
// operations are done, with a context ending when ctx ends or the queue is closed. If the
// queue is closed already, the request fails with ErrClosed.
func (q *RequestQueue) Do(ctx context.Context, op func(ctx context.Context) error) *Request {
	r := &Request{ctx: ctx, op: op, done: make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		r.finish(fmt.Errorf("jaccl: queue: %w", ErrClosed))
		return r
	}
	q.waiting = append(q.waiting, r)
	if !q.running {
		q.running = true
		q.idle.Go(q.run)
	}
	return r
}

func (q *RequestQueue) run() {
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			q.running, q.waiting, q.cancel = false, nil, nil
			q.mu.Unlock()
			return
		}
		r := q.waiting[0]
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		err := q.err
		var ctx context.Context
		if err == nil {
			ctx, q.cancel = context.WithCancelCause(r.ctx)
		}
		cancel := q.cancel
		q.mu.Unlock()

		if err == nil {
			err = r.op(ctx)
			cancel(nil)
		}
		if err != nil {
			q.mu.Lock()
			if q.err == nil {
				q.err = err
			}
			q.mu.Unlock()
		}
		r.finish(err)
	}
}

func (r *Request) finish(err error) {
	r.err, r.op, r.ctx = err, nil, nil
	close(r.done)
}

// Close ends the queue. It ends the context of the operation in progress, and fails the
// operations that have not begun; the cause of both is ErrClosed. Wait for requests before
// Close if they must succeed. Close returns when the queue's goroutine has ended, and may
// be called twice.
func (q *RequestQueue) Close() error {
	q.mu.Lock()
	q.closed = true
	if q.running {
		if q.err == nil {
			q.err = fmt.Errorf("jaccl: queue: %w", ErrClosed)
		}
		if q.cancel != nil {
			q.cancel(q.err)
		}
	}
	q.mu.Unlock()
	q.idle.Wait()
	return nil
}

// Wait blocks until the operation is done and returns its error. If ctx ends before that,
// Wait returns the cause of ctx, and the operation continues.
func (r *Request) Wait(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	default:
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Done is closed when the operation is done.
func (r *Request) Done() <-chan struct{} { return r.done }
