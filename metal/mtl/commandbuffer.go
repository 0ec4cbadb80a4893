package mtl

import (
	"context"
	"errors"
	"fmt"
)

// Status says how far a command buffer is.
type Status int

// The stages of a command buffer, with Metal's numbers.
const (
	NotEnqueued Status = iota
	Enqueued
	Committed
	Scheduled
	Completed
	Failed
)

func (s Status) String() string {
	names := [...]string{"not enqueued", "enqueued", "committed", "scheduled", "completed", "failed"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("status %d", int(s))
	}
	return names[s]
}

// CommandBuffer is work for the GPU: filled by encoders, one after another, committed
// once, and waited for. It belongs to the caller, who closes it, after the wait or
// before: what was committed runs all the same.
//
// A mistake in encoding is kept, and the rest of the encoding ignored, until Commit
// returns it.
type CommandBuffer struct {
	object
	queue     *Queue
	label     string
	err       error   // the first mistake
	encoder   *object // the encoder that is open, nil if none is
	committed bool
	number    uint64 // the value of the queue's event when it has completed
}

// CommandBuffer returns a new command buffer; label is for errors and for Metal's
// debugger. Encode in a Pool, or with Encode.
func (q *Queue) CommandBuffer(label string) (*CommandBuffer, error) {
	id := q.id.Load()
	if id == 0 {
		return nil, fmt.Errorf("mtl: command buffer %s: the queue is closed", label)
	}
	// It is autoreleased, as is everything whose name does not begin with new, alloc or
	// copy, and is used after the pool: so it is retained.
	o := q.rt.pooled(id, q.rt.sel.commandBuffer)
	if o == 0 {
		return nil, fmt.Errorf("mtl: command buffer %s: Metal has none left", label)
	}
	cb := &CommandBuffer{queue: q, label: label}
	cb.own(q.rt, o)
	q.rt.label(o, label)
	return cb, nil
}

// fail keeps the first mistake.
func (cb *CommandBuffer) fail(format string, args ...any) {
	if cb.err == nil {
		cb.err = fmt.Errorf("mtl: command buffer %s: %w", cb.label, fmt.Errorf(format, args...))
	}
}

// ready reports whether something can be encoded in the command buffer itself or a new
// encoder, and keeps the mistake if not.
func (cb *CommandBuffer) ready(what string) bool {
	switch {
	case cb.id.Load() == 0:
		cb.fail("%s: it is closed", what)
	case cb.committed:
		cb.fail("%s: it is committed; use a new one", what)
	case cb.encoder != nil:
		cb.fail("%s: an encoder is open; End it first", what)
	}
	return cb.err == nil
}

// Signal sets e to value when all that was encoded so far has completed.
func (cb *CommandBuffer) Signal(e *SharedEvent, value uint64) {
	cb.event("signal", cb.rt.sel.encodeSignal, e, value)
}

// WaitFor has the GPU wait for e to reach value before it runs what is encoded from
// here on. Other queues go on.
func (cb *CommandBuffer) WaitFor(e *SharedEvent, value uint64) {
	cb.event("wait", cb.rt.sel.encodeWait, e, value)
}

func (cb *CommandBuffer) event(what string, selector uintptr, e *SharedEvent, value uint64) {
	if e == nil {
		cb.fail("%s: the event is nil", what)
		return
	}
	id := e.id.Load()
	if id == 0 {
		cb.fail("%s: the event is closed", what)
	}
	if cb.ready(what) {
		cb.rt.msg(cb.id.Load(), selector, id, uintptr(value))
	}
}

// Commit hands the command buffer to the GPU, or returns the first mistake that was
// made in encoding it, and then nothing runs. It does not block.
func (cb *CommandBuffer) Commit() error {
	if !cb.ready("commit") {
		return cb.err
	}
	q := cb.queue
	event := q.done.id.Load()
	if event == 0 {
		cb.fail("commit: the queue is closed")
		return cb.err
	}
	q.mu.Lock() // numbers are in the order of commits
	defer q.mu.Unlock()
	q.committed++
	cb.number = q.committed
	cb.committed = true
	return cb.rt.Pool(func() error {
		id := cb.id.Load()
		cb.rt.msg(id, cb.rt.sel.encodeSignal, event, uintptr(cb.number))
		cb.rt.msg(id, cb.rt.sel.commit)
		return nil
	})
}

// Wait blocks until the command buffer has completed, and then returns nil, or Metal's
// own error if it failed; or until ctx is done, and then returns ctx's cause, at most
// some 10 ms late, while the GPU works on. The results of this command buffer, and of
// those committed before to the same queue, may be read after a nil.
func (cb *CommandBuffer) Wait(ctx context.Context) error {
	id := cb.id.Load()
	switch {
	case id == 0:
		return fmt.Errorf("mtl: command buffer %s: wait: it is closed", cb.label)
	case !cb.committed:
		return fmt.Errorf("mtl: command buffer %s: wait: it is not committed", cb.label)
	}
	// waitUntilCompleted takes no time, so the wait is for the event that the queue
	// signals behind each command buffer, in slices. One that has failed need not have
	// signalled: its status says so.
	if ctx.Done() != nil {
		event := cb.queue.done.id.Load()
		for cb.Status() < Completed {
			if event == 0 {
				return errors.New("mtl: command buffer " + cb.label + ": wait: the queue is closed; wait without a deadline")
			}
			if cb.rt.await(event, cb.number) {
				break
			}
			if ctx.Err() != nil && cb.Status() < Completed {
				return fmt.Errorf("mtl: command buffer %s: %s: %w", cb.label, cb.Status(), context.Cause(ctx))
			}
		}
	}
	return cb.rt.Pool(func() error {
		cb.rt.msg(id, cb.rt.sel.waitUntilCompleted)
		return cb.failure(id)
	})
}

// Status says how far the command buffer is. It does not block.
func (cb *CommandBuffer) Status() Status {
	return Status(cb.rt.msg(cb.id.Load(), cb.rt.sel.status))
}

// Err returns Metal's own error if the command buffer has failed, nil if it has
// completed or still runs. Metal's text is in an *Error. It does not block.
func (cb *CommandBuffer) Err() error {
	id := cb.id.Load()
	if id == 0 {
		return nil
	}
	return cb.rt.Pool(func() error { return cb.failure(id) })
}

func (cb *CommandBuffer) failure(id uintptr) error {
	if Status(cb.rt.msg(id, cb.rt.sel.status)) != Failed {
		return nil
	}
	return cb.rt.failure("command buffer "+cb.label, cb.rt.msg(id, cb.rt.sel.err))
}

// GPUStart is when the GPU began, in seconds of the host's clock, 0 before it has.
func (cb *CommandBuffer) GPUStart() float64 { return cb.rt.double(cb.id.Load(), cb.rt.sel.gpuStart) }

// GPUEnd is when the GPU had finished, in seconds of the host's clock, 0 before it has.
func (cb *CommandBuffer) GPUEnd() float64 { return cb.rt.double(cb.id.Load(), cb.rt.sel.gpuEnd) }

// Close releases the command buffer. If it was not committed, nothing of it runs, and an
// encoder that is open ends.
func (cb *CommandBuffer) Close() {
	if cb.encoder != nil { // Metal ends the process if one is released that has not ended
		_ = cb.rt.Pool(func() error {
			cb.endEncoder()
			return nil
		})
	}
	cb.close()
}

// begin opens an encoder: it is autoreleased by the message that makes it, and is
// retained until it ends.
func (cb *CommandBuffer) begin(o *object, what string, selector uintptr, args ...uintptr) {
	if !cb.ready(what) {
		return
	}
	id := cb.rt.pooled(cb.id.Load(), selector, args...)
	if id == 0 {
		cb.fail("%s: Metal has no encoder", what)
		return
	}
	o.own(cb.rt, id)
	cb.encoder = o
}

// endEncoder ends the encoder that is open.
func (cb *CommandBuffer) endEncoder() {
	o := cb.encoder
	cb.encoder = nil
	cb.rt.msg(o.id.Load(), cb.rt.sel.endEncoding)
	o.close()
}
