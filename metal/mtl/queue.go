package mtl

import (
	"errors"
	"sync"
)

// Queue runs command buffers in the order in which they are committed. It belongs to
// the caller. Its methods may be called by several goroutines at once.
type Queue struct {
	object
	done *SharedEvent // its value is that of the last command buffer that has completed

	mu        sync.Mutex // held while a command buffer is committed
	committed uint64     // command buffers so far
}

// Queue returns a new queue. Metal lets it have 64 command buffers that have not
// completed: the next waits for the first of them.
func (d *Device) Queue() (*Queue, error) {
	id, err := d.open("queue")
	if err != nil {
		return nil, err
	}
	o := d.rt.msg(id, d.rt.sel.newCommandQueue)
	if o == 0 {
		return nil, errors.New("mtl: queue: Metal has none left; close those that are not used")
	}
	q := &Queue{}
	q.own(d.rt, o)
	if q.done, err = d.SharedEvent(); err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

// Pool calls f in an autorelease pool: see Runtime.Pool.
func (q *Queue) Pool(f func() error) error { return q.rt.Pool(f) }

// Encode makes a command buffer, calls f to fill it and commits it, all in one Pool on
// one thread. It returns the command buffer, which the caller closes, or f's error or
// that of Commit, and then nothing was committed.
func (q *Queue) Encode(label string, f func(*CommandBuffer) error) (*CommandBuffer, error) {
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

// Close releases the queue. Command buffers that were committed still run.
func (q *Queue) Close() {
	q.done.Close()
	q.close()
}
