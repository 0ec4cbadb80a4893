package jaccl

import (
	"context"
	"fmt"
	"sync"
)

// RequestQueue is the asynchronous form of all operations of a communicator: it runs them in
// the order in which they are given, while the goroutine that gives them goes on.
//
//	var q jaccl.RequestQueue
//	defer q.Close()
//	r := q.Do(ctx, func(ctx context.Context) error { return g.AllSum(ctx, call, sum, grad) })
//	...                      // what neither reads sum nor writes grad
//	err := r.Wait(ctx)
//
// Buffers are the operation's until it is done. As a communicator runs one operation
// at a time, all of its operations go through one queue, or are called when the queue
// has none. After an operation that failed the later ones are not run and fail with
// the same error.
//
// The zero RequestQueue is usable. Its goroutine runs while there are operations. The methods
// may be called by several goroutines at once, whose order is then theirs to care for.
type RequestQueue struct {
	mu      sync.Mutex
	waiting []*Request
	cancel  context.CancelCauseFunc // of the operation in progress
	running bool
	closed  bool
	err     error // of the first operation that failed
	idle    sync.WaitGroup
}

// Request is an operation that has been given to a RequestQueue.
type Request struct {
	ctx  context.Context
	op   func(context.Context) error
	done chan struct{}
	err  error // once done is closed
}

// Do gives op to the queue, which calls it with a context that ends with ctx, when all
// before it are done. It does not block.
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

// Close ends the queue. The context of the operation in progress ends, those that have
// not begun fail, and both with ErrClosed: wait for requests before Close to have them
// succeed. It returns when the queue's goroutine has ended, and may be called twice.
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

// Wait returns the operation's error when it is done. If ctx ends before that, Wait
// returns its cause, and the operation goes on.
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
