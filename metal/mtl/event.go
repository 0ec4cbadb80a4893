package mtl

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// slice is how long a wait is left to Metal before its context is looked at again: the
// waits take no context, and to be called back would take a block.
const slice = 10 * time.Millisecond

// SharedEvent is a number that only grows, which the GPU and the host set and wait for.
// It belongs to the caller.
type SharedEvent struct{ object }

// SharedEvent returns a new event, of value 0.
func (d *Device) SharedEvent() (*SharedEvent, error) {
	id, err := d.open("shared event")
	if err != nil {
		return nil, err
	}
	o := d.rt.msg(id, d.rt.sel.newSharedEvent)
	if o == 0 {
		return nil, errors.New("mtl: shared event: Metal has none; they come with macOS 10.14")
	}
	e := &SharedEvent{}
	e.own(d.rt, o)
	return e, nil
}

// Value is the event's value now.
func (e *SharedEvent) Value() uint64 { return uint64(e.rt.msg(e.id.Load(), e.rt.sel.signaledValue)) }

// Signal sets the value from the host. It is greater than those before.
func (e *SharedEvent) Signal(value uint64) {
	e.rt.msg(e.id.Load(), e.rt.sel.setSignaledValue, uintptr(value))
}

// Wait blocks until the event's value is at least value, or until ctx is done, whose
// cause it then returns, at most some 10 ms late. What a command buffer does before it
// signals the event is then visible to the host. A value that nobody signals is waited
// for as long as ctx lasts: a command buffer that fails signals nothing.
func (e *SharedEvent) Wait(ctx context.Context, value uint64) error {
	for {
		id := e.id.Load()
		if id == 0 {
			return errors.New("mtl: event: it is closed, and waited for")
		}
		if e.rt.await(id, value) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("mtl: event: waiting for value %d, it is %d: %w", value, e.Value(), context.Cause(ctx))
		}
	}
}

// await waits a slice for a value, and reports whether it was reached.
func (rt *Runtime) await(event uintptr, value uint64) bool {
	return truth(rt.msg(event, rt.sel.waitUntilSignaled, uintptr(value), uintptr(slice.Milliseconds())))
}

// Close releases the event.
func (e *SharedEvent) Close() { e.close() }
