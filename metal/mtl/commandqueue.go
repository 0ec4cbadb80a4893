package mtl

import (
	"errors"
	"sync"
)

// CommandQueue runs command buffers in the order of their commits. The caller owns it. Several
// goroutines may call its methods at once.
type CommandQueue struct {
	object
	done *SharedEvent // its value is the number of the last completed command buffer

	mu        sync.Mutex // held while committing a command buffer
	committed uint64     // number of command buffers committed so far
}

// CommandQueue returns a new queue. Metal allows it 64 uncompleted command buffers; making another
// one blocks until the first of them has completed.
func (d *Device) CommandQueue() (*CommandQueue, error) {
	id, err := d.open("queue")
	if err != nil {
		return nil, err
	}
	o := d.rt.msg(id, d.rt.sel.newCommandQueue)
	if o == 0 {
		return nil, errors.New("mtl: queue: Metal has none left; close those that are not used")
	}
	q := &CommandQueue{}
	q.own(d.rt, o)
	if q.done, err = d.SharedEvent(); err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

// Pool calls f in an autorelease pool: see Runtime.Pool.
func (q *CommandQueue) Pool(f func() error) error { return q.rt.Pool(f) }

// Encode makes a command buffer, calls f to fill it and commits it, all in one Pool on one thread.
// It returns the command buffer, which the caller must close. If f or Commit fails, it returns that
// error, and nothing was committed.
func (q *CommandQueue) Encode(label string, f func(*CommandBuffer) error) (*CommandBuffer, error) {
	var cb *CommandBuffer
	err := q.Pool(func() (err error) {
		if cb, err = q.CommandBuffer(label); err != nil {
			return err
		}
		if err = f(cb); err == nil {
			err = cb.Commit()
		}
		return err
	})
	if err != nil {
		if cb != nil {
			cb.Close()
		}
		return nil, err
	}
	return cb, nil
}

// Keep makes the buffers of a set resident while command buffers of the queue are running. It does
// nothing if there is no set.
func (q *CommandQueue) Keep(s *ResidencySet) {
	if s != nil {
		q.rt.msg(q.id.Load(), q.rt.sel.addResidencySet, s.id.Load())
	}
}

// Close releases the queue. Committed command buffers still run.
func (q *CommandQueue) Close() {
	q.done.Close()
	q.close()
}
