package mtl

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/standin"
)

func (b *bench) event() *SharedEvent {
	b.Helper()
	e, err := b.device.SharedEvent()
	require.NoError(b, err)
	b.Cleanup(e.Close)
	return e
}

// Who waits for an event sees what was done before its signal, and nothing behind it.
func TestEventInTheMiddle(t *testing.T) {
	b := stand(t, standin.Options{})
	x, values := b.floats(1, 1)
	event := b.event()
	fill := func(cb *CommandBuffer, at int) {
		e := cb.Blit()
		e.Fill(x, at, 4, 0)
		e.End()
	}
	cb := b.encode(func(cb *CommandBuffer) {
		fill(cb, 0)
		cb.Signal(event, 5)
		fill(cb, 4)
	})
	if event.Value() != 0 {
		t.Errorf("value %d before the wait", event.Value())
	}
	require.NoError(t, event.Wait(within(t, 10*time.Second), 4))
	if values[0] != 0 || values[1] != 1 || event.Value() != 5 {
		t.Errorf("after the wait for the event it is %v, the event %d", values, event.Value())
	}
	if s := cb.Status(); s != Scheduled {
		t.Errorf("the command buffer is %s, want scheduled, as it is half done", s)
	}
	b.wait(cb)
	if values[1] != 0 {
		t.Error("the rest did not run")
	}
}

// A queue waits for another, in whichever order their command buffers are committed.
func TestEventAcrossQueues(t *testing.T) {
	b := stand(t, standin.Options{})
	other, err := b.device.CommandQueue()
	require.NoError(t, err)
	defer other.Close()
	x, _ := b.floats(ramp(8)...)
	y, values := b.floats(make([]float32, 8)...)
	event := b.event()
	second := b.encode(func(cb *CommandBuffer) {
		cb.WaitFor(event, 1)
		e := cb.Compute(false)
		b.add(e, x, y, 10)
		e.End()
	})
	first, err := other.Encode("first", func(cb *CommandBuffer) error {
		e := cb.Compute(false)
		b.add(e, x, x, 100)
		e.End()
		cb.Signal(event, 1)
		return nil
	})
	require.NoError(t, err)
	defer first.Close()
	b.wait(second)
	if values[3] != 113 {
		t.Errorf("y[3] = %v, want 113", values[3])
	}
	b.wait(first)
}

// An event that nobody signals is waited for until the context ends, and is reported
// when it goes.
func TestEventNeverSignalled(t *testing.T) {
	b := stand(t, standin.Options{})
	b.bad = []string{"an event was waited for until it had value 3, and nobody signalled more than 2"}
	event := b.event()
	event.Signal(2)
	require.NoError(t, event.Wait(context.Background(), 2))
	err := event.Wait(within(t, 30*time.Millisecond), 3)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "waiting for value 3, it is 2")
	event.Close()
	event.Close()
	require.ErrorContains(t, event.Wait(t.Context(), 3), "closed")
}

// A waiter that is there first is woken by what others commit, and by the host.
func TestEventFromOthers(t *testing.T) {
	b := stand(t, standin.Options{})
	event := b.event()
	done := make(chan error)
	for _, value := range []uint64{1, 2} {
		go func() { done <- event.Wait(within(t, 10*time.Second), value) }()
	}
	time.Sleep(5 * time.Millisecond)
	b.encode(func(cb *CommandBuffer) { cb.Signal(event, 1) })
	require.NoError(t, <-done)
	event.Signal(2)
	require.NoError(t, <-done)
	b.wait(b.encode(func(*CommandBuffer) {}))
}
