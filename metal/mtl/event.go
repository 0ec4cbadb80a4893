package mtl

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// slice is the duration of one wait inside Metal, after which the context is checked again. Metal's
// waits take no context, and a callback would need a block.
const slice = 10 * time.Millisecond

// SharedEvent is an increasing number. The GPU and the host set it and wait for it. The caller owns
// it.
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

// Value returns the event's current value.
func (e *SharedEvent) Value() uint64 { return uint64(e.rt.msg(e.id.Load(), e.rt.sel.signaledValue)) }

// Signal sets the value from the host. value must be greater than all earlier values.
func (e *SharedEvent) Signal(value uint64) {
	e.rt.msg(e.id.Load(), e.rt.sel.setSignaledValue, uintptr(value))
}

// Wait blocks until the event's value is at least value. If ctx ends first, it returns ctx's cause,
// at most some 10 ms late. After a nil, the host sees everything that the command buffer did before
// signalling the event. If nobody signals the value, Wait blocks until ctx ends; a failing command
// buffer signals nothing.
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

// await waits for a value, at most one slice, and reports whether it was reached. Metal may
// autorelease objects while waiting, so await has a pool.
func (rt *Runtime) await(event uintptr, value uint64) (reached bool) {
	_ = rt.Pool(func() error {
		reached = truth(rt.msg(event, rt.sel.waitUntilSignaled, uintptr(value), uintptr(slice.Milliseconds())))
		return nil
	})
	return reached
}

// Close releases the event.
func (e *SharedEvent) Close() { e.close() }
