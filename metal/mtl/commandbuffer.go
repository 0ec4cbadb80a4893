package mtl

import (
	"context"
	"errors"
	"fmt"
)

// Status is a command buffer's stage of execution.
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

// CommandBuffer is work for the GPU. Encoders fill it, one after another; it is committed once and
// waited for. The caller owns it and must close it, before or after waiting: committed work runs in
// any case.
//
// After a mistake in encoding, the rest of the encoding is ignored, and Commit returns the mistake.
type CommandBuffer struct {
	object
	queue     *CommandQueue
	label     string
	err       error   // the first mistake
	encoder   *object // the open encoder, nil if there is none
	groups    int     // number of the encoder's open debug groups
	committed bool
	number    uint64 // the value of the queue's event on completion of this command buffer
}

// CommandBuffer returns a new command buffer. label is for errors and for Metal's
// debugger. Encode inside a Pool, or with Encode.
func (q *CommandQueue) CommandBuffer(label string) (*CommandBuffer, error) {
	id := q.id.Load()
	if id == 0 {
		return nil, fmt.Errorf("mtl: command buffer %s: the queue is closed", label)
	}
	// Metal autoreleases it, like every object from a method not named new, alloc or copy. It is
	// used after the pool has ended, so it is retained.
	o := q.rt.pooled(id, q.rt.sel.commandBuffer)
	if o == 0 {
		return nil, fmt.Errorf("mtl: command buffer %s: Metal has none left", label)
	}
	cb := &CommandBuffer{queue: q, label: label}
	cb.own(q.rt, o)
	q.rt.label(o, label)
	return cb, nil
}

// Mistake returns the first mistake in encoding so far, nil if there is none.
func (cb *CommandBuffer) Mistake() error { return cb.err }

// fail records the first mistake.
func (cb *CommandBuffer) fail(format string, args ...any) {
	if cb.err == nil {
		cb.err = fmt.Errorf("mtl: command buffer %s: %w", cb.label, fmt.Errorf(format, args...))
	}
}

// ready reports whether anything can be encoded in the command buffer itself or in a new encoder.
// If not, it records the mistake.
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

// Signal makes the GPU set e to value after completing everything encoded so far.
func (cb *CommandBuffer) Signal(e *SharedEvent, value uint64) {
	cb.event("signal", cb.rt.sel.encodeSignal, e, value)
}

// WaitFor makes the GPU wait until e reaches value before running anything encoded later. Other
// queues are not delayed.
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

// Commit hands the command buffer to the GPU. If there was a mistake in encoding, it returns the
// first one and nothing runs. It does not block.
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
	q.mu.Lock() // numbers follow the order of commits
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

// Wait blocks until the command buffer has completed, and returns nil, or Metal's own error if it
// failed. If ctx ends first, Wait returns ctx's cause, at most some 10 ms late; the GPU continues.
// After a nil, the results of this command buffer, and of command buffers committed earlier to the
// same queue, may be read.
func (cb *CommandBuffer) Wait(ctx context.Context) error {
	id := cb.id.Load()
	switch {
	case id == 0:
		return fmt.Errorf("mtl: command buffer %s: wait: it is closed", cb.label)
	case !cb.committed:
		return fmt.Errorf("mtl: command buffer %s: wait: it is not committed", cb.label)
	}
	// waitUntilCompleted has no timeout. So wait, in slices, for the event that the queue signals
	// after each command buffer. A failed command buffer may not have signalled; its status says
	// so.
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

// Status returns the command buffer's stage of execution. It does not block.
func (cb *CommandBuffer) Status() Status {
	return Status(cb.rt.msg(cb.id.Load(), cb.rt.sel.status))
}

// Err returns Metal's own error if the command buffer has failed, and nil if it has
// completed or is still running. Metal's text is in an *Error. Err does not block.
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

// GPUStart returns the start of execution, in seconds of the host's clock; 0 before that.
func (cb *CommandBuffer) GPUStart() float64 { return cb.rt.double(cb.id.Load(), cb.rt.sel.gpuStart) }

// GPUEnd returns the end of execution, in seconds of the host's clock; 0 before that.
func (cb *CommandBuffer) GPUEnd() float64 { return cb.rt.double(cb.id.Load(), cb.rt.sel.gpuEnd) }

// Close releases the command buffer, ending an open encoder. An uncommitted command buffer does not
// run.
func (cb *CommandBuffer) Close() {
	if cb.encoder != nil { // Metal aborts the process on releasing an encoder that has not ended
		_ = cb.rt.Pool(func() error {
			cb.endEncoder()
			return nil
		})
	}
	cb.close()
}

// begin opens an encoder. The message making it autoreleases it, so it is retained until it ends.
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

// endEncoder ends the open encoder, and the debug groups left open by a mistake.
func (cb *CommandBuffer) endEncoder() {
	o := cb.encoder
	cb.encoder = nil
	for ; cb.groups > 0; cb.groups-- {
		cb.rt.msg(o.id.Load(), cb.rt.sel.popGroup)
	}
	cb.rt.msg(o.id.Load(), cb.rt.sel.endEncoding)
	o.close()
}
