package mtl

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/standin"
)

// A wait for one command buffer runs those before it in its queue, and none behind.
func TestWaitRunsWhatIsNeeded(t *testing.T) {
	b := stand(t, standin.Options{})
	x, values := b.floats(0, 0, 0)
	fill := func(i int) func(cb *CommandBuffer) {
		return func(cb *CommandBuffer) {
			e := cb.Blit()
			e.Fill(x, 4*i, 4, 0x40)
			e.End()
		}
	}
	first, second, third := b.encode(fill(0)), b.encode(fill(1)), b.encode(fill(2))
	b.wait(second)
	const filled = 3.0039215 // bytes 0x40
	if math.Abs(float64(values[0])-filled) > 1e-5 || math.Abs(float64(values[1])-filled) > 1e-5 || values[2] != 0 {
		t.Errorf("after a wait for the second of three: %v", values)
	}
	if first.Status() != Completed || third.Status() != Committed {
		t.Errorf("the first is %s and the third %s", first.Status(), third.Status())
	}
	b.wait(third)
	if values[2] == 0 {
		t.Error("the third has not run after a wait for it")
	}
}

func TestWaitEndsWithContext(t *testing.T) {
	b := stand(t, standin.Options{})
	never, err := b.device.SharedEvent()
	require.NoError(t, err)
	defer never.Close()
	cb := b.encode(func(cb *CommandBuffer) { cb.WaitFor(never, 1) })
	cause := errors.New("no more time")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, cause)
	defer cancel()
	require.ErrorIs(t, cb.Wait(ctx), cause)
	if cb.Status() == Completed || cb.Status() == Failed {
		t.Errorf("status %s after a wait that was given up", cb.Status())
	}
	never.Signal(1) // from the host
	b.wait(cb)
	require.NoError(t, cb.Wait(context.Background()))
}

// An event that nobody signals holds up its queue until the GPU gives up.
func TestStall(t *testing.T) {
	b := stand(t, standin.Options{Stall: 50 * time.Millisecond})
	b.bad = []string{"waits for value 7 of an event, which nobody has signalled: it is 3"}
	never, err := b.device.SharedEvent()
	require.NoError(t, err)
	defer never.Close()
	never.Signal(3)
	cb := b.encode(func(cb *CommandBuffer) { cb.WaitFor(never, 7) })
	next := b.encode(func(cb *CommandBuffer) {})
	var failure *Error
	require.ErrorAs(t, cb.Wait(context.Background()), &failure)
	if failure.Domain != "MTLCommandBufferErrorDomain" || failure.Code != 2 || !strings.Contains(failure.Text, "Caused GPU Timeout Error") {
		t.Errorf("error %+v", failure)
	}
	require.NoError(t, next.Wait(context.Background()))
}

// A command buffer that Metal fails has Metal's own words, for all who ask, whether they
// wait with a deadline or without, and the next runs.
func TestFailure(t *testing.T) {
	b := stand(t, standin.Options{})
	const text = "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"
	x, values := b.floats(0, 0)
	fill := func(cb *CommandBuffer) {
		e := cb.Blit()
		e.Fill(x, 0, 8, 0x40)
		e.End()
	}
	for _, ctx := range []context.Context{context.Background(), within(t, 10*time.Second)} {
		values[0] = 0
		b.standin.FailCommandBuffer(1, "MTLCommandBufferErrorDomain", 8, text)
		empty, failing := b.encode(func(*CommandBuffer) {}), b.encode(fill)
		require.NoError(t, empty.Wait(ctx))
		for range 2 {
			var failure *Error
			require.ErrorAs(t, failing.Wait(ctx), &failure)
			if failure.Text != text || failure.Code != 8 || failure.Domain != "MTLCommandBufferErrorDomain" {
				t.Errorf("error %+v", failure)
			}
			require.ErrorContains(t, failing.Err(), text)
			require.ErrorContains(t, failing.Err(), t.Name())
		}
		if failing.Status() != Failed || values[0] != 0 {
			t.Errorf("status %s, and %v was written", failing.Status(), values[0])
		}
		next := b.encode(fill)
		require.NoError(t, next.Wait(ctx))
		if values[0] == 0 {
			t.Error("the next did not run")
		}
	}
}

// Mistakes in encoding are Commit's error, the first of them, and then nothing runs.
func TestMistakes(t *testing.T) {
	b := stand(t, standin.Options{})
	x, _ := b.floats(ramp(64)...)
	y, _ := b.floats(ramp(64)...)
	closed, err := b.device.Buffer(4)
	require.NoError(t, err)
	closed.Close()
	closed.Close()
	gone, err := b.device.SharedEvent()
	require.NoError(t, err)
	gone.Close()
	compute := func(f func(e *Compute)) func(cb *CommandBuffer) {
		return func(cb *CommandBuffer) {
			e := cb.Compute(false)
			e.SetPipeline(b.pipeline("add"))
			f(e)
			e.End()
		}
	}
	blit := func(f func(e *Blit)) func(cb *CommandBuffer) {
		return func(cb *CommandBuffer) {
			e := cb.Blit()
			f(e)
			e.End()
		}
	}
	one := [3]int{1, 1, 1}
	for _, c := range []struct {
		name string
		want string
		f    func(cb *CommandBuffer)
	}{
		{"bytes too long", "4097 bytes, want 1 to 4096", compute(func(e *Compute) { e.SetBytes(2, make([]byte, 4097)) })},
		{"no bytes", "0 bytes, want 1 to 4096", compute(func(e *Compute) { e.SetBytes(2, nil) })},
		{"bytes index", "want an index below 31", compute(func(e *Compute) { e.SetBytes(31, make([]byte, 4)) })},
		{"buffer index", "want an index below 31", compute(func(e *Compute) { e.SetBuffer(-1, x, 0) })},
		{"offset", "offset 6, want a multiple of 4", compute(func(e *Compute) { e.SetBuffer(0, x, 6) })},
		{"offset beyond", "offset 256, want", compute(func(e *Compute) { e.SetBuffer(0, x, 256) })},
		{"closed buffer", "set buffer 0: it is closed", compute(func(e *Compute) { e.SetBuffer(0, closed, 0) })},
		{"threads", "want at most 1024", compute(func(e *Compute) { e.Dispatch(one, [3]int{32, 33, 1}) })},
		{"no threads", "at least 1 in each direction", compute(func(e *Compute) { e.Dispatch([3]int{1, 0, 1}, one) })},
		{"no pipeline", "no pipeline is set", func(cb *CommandBuffer) { e := cb.Compute(true); e.Dispatch(one, one); e.End() }},
		{"threadgroup memory", "want some and an index below", compute(func(e *Compute) { e.SetThreadgroupMemory(0, 0) })},
		{"pop", "none is open", compute(func(e *Compute) { e.PopDebugGroup() })},
		{"second encoder", "an encoder is open; End it first", func(cb *CommandBuffer) { cb.Compute(false); cb.Blit() }},
		{"encoder left open", "commit: an encoder is open; End it first", func(cb *CommandBuffer) { cb.Compute(false) }},
		{"signal in an encoder", "signal: an encoder is open", func(cb *CommandBuffer) { cb.Blit(); cb.Signal(b.queue.done, 1) }},
		{"nil", "set buffer 0: it is nil", compute(func(e *Compute) { e.SetBuffer(0, nil, 0); e.SetPipeline(nil) })},
		{"nil pipeline", "set pipeline: it is nil", compute(func(e *Compute) { e.SetPipeline(nil) })},
		{"nil event", "signal: the event is nil", func(cb *CommandBuffer) { cb.Signal(nil, 1) }},
		{"nil copy", "copy to: the buffer is nil", blit(func(e *Blit) { e.Copy(nil, 0, nil, 0, 4) })},
		{"nil fill", "fill: the buffer is nil", blit(func(e *Blit) { e.Fill(nil, 0, 4, 0) })},
		{"closed event", "the event is closed", func(cb *CommandBuffer) { cb.WaitFor(gone, 1) }},
		{"ended encoder", "the encoder has ended", func(cb *CommandBuffer) { e := cb.Compute(false); e.End(); e.End(); e.Barrier() }},
		{"ended blit", "the encoder has ended", func(cb *CommandBuffer) { e := cb.Blit(); e.End(); e.Fill(x, 0, 4, 0); cb.Compute(false) }},
		{"fill", "bytes 252 to 260, want some of the buffer's 256", blit(func(e *Blit) { e.Fill(x, 252, 8, 0) })},
		{"copy", "copy to: bytes 0 to 260", blit(func(e *Blit) { e.Copy(y, 0, x, 0, 260) })},
		{"copy from", "copy from: bytes -4 to 4", blit(func(e *Blit) { e.Copy(y, 0, x, -4, 8) })},
		{"overlap", "overlap", blit(func(e *Blit) { e.Copy(x, 0, x, 4, 8) })},
		{"fill of closed", "fill: the buffer is closed", blit(func(e *Blit) { e.Fill(closed, 0, 4, 0) })},
	} {
		cb, err := b.queue.Encode(c.name, func(cb *CommandBuffer) error { c.f(cb); return nil })
		if cb != nil {
			t.Errorf("%s: was committed", c.name)
			cb.Close()
			continue
		}
		require.ErrorContains(t, err, c.want, c.name)
		require.ErrorContains(t, err, "mtl: command buffer "+c.name+": ")
	}
	// What f returns is returned, and what it left open is closed.
	mine := errors.New("mine")
	_, err = b.queue.Encode("mine", func(cb *CommandBuffer) error { cb.Compute(false); return mine })
	require.ErrorIs(t, err, mine)
	// Twice, and after the end.
	cb := b.encode(func(*CommandBuffer) {})
	require.ErrorContains(t, cb.Commit(), "it is committed; use a new one")
	b.wait(cb)
	cb.Close()
	cb.Close()
	require.ErrorContains(t, cb.Wait(t.Context()), "it is closed")
	require.NoError(t, b.queue.Pool(func() error {
		cb, err := b.queue.CommandBuffer("idle")
		require.NoError(t, err)
		defer cb.Close()
		require.ErrorContains(t, cb.Wait(t.Context()), "it is not committed")
		return nil
	}))
}

// The driver's autoreleased objects are its own past the pools that they came from, and
// the threads that those belonged to.
func TestAcrossThreads(t *testing.T) {
	b := stand(t, standin.Options{})
	in, _ := b.floats(ramp(32)...)
	out, view := b.floats(make([]float32, 32)...)
	cb, err := b.queue.CommandBuffer("across threads")
	require.NoError(t, err)
	defer cb.Close()
	var e *Compute
	onAnother(func() { e = cb.Compute(false) })
	onAnother(func() {
		_ = b.rt.Pool(func() error {
			b.add(e, in, out, 2)
			e.End()
			return cb.Commit()
		})
	})
	onAnother(func() { b.wait(cb) })
	if view[31] != 33 {
		t.Errorf("out[31] = %v, want 33", view[31])
	}
}

// onAnother calls f on a thread of the system that ends with it.
func onAnother(f func()) {
	done := make(chan bool)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends
		defer close(done)
		f()
	}()
	<-done
}

// Objects that Metal autoreleases while it encodes leak without a pool.
func TestEncodingOutsideOfPool(t *testing.T) {
	b := stand(t, standin.Options{})
	in, _ := b.floats(ramp(32)...)
	cb, err := b.queue.CommandBuffer("no pool")
	require.NoError(t, err)
	e := cb.Compute(false)
	b.add(e, in, in, 2)
	cb.Close()
	r := b.standin.Report()
	if r.NoPool() != 5 {
		t.Errorf("%d objects were autoreleased outside of a pool, want 5, one per message of the dispatch", r.NoPool())
	}
	b.outside = r.NoPool()
}

// Metal has 64 command buffers at most that have not completed.
func TestManyCommandBuffers(t *testing.T) {
	b := stand(t, standin.Options{})
	x, _ := b.floats(0)
	var last *CommandBuffer
	for range 200 {
		last = b.encode(func(cb *CommandBuffer) {
			e := cb.Blit()
			e.Fill(x, 0, 4, 1)
			e.End()
		})
	}
	b.wait(last)
}

// An eager stand-in has run what is committed, as far as it need not wait for others.
func TestEager(t *testing.T) {
	b := stand(t, standin.Options{Eager: true})
	x, values := b.floats(1, 1)
	event := b.event()
	cb := b.encode(func(cb *CommandBuffer) {
		e := cb.Blit()
		e.Fill(x, 0, 4, 0)
		e.End()
		cb.WaitFor(event, 1)
		e = cb.Blit()
		e.Fill(x, 4, 4, 0)
		e.End()
	})
	if values[0] != 0 || values[1] != 1 || cb.Status() != Scheduled {
		t.Errorf("after the commit it is %v, and the command buffer %s", values, cb.Status())
	}
	event.Signal(1)
	b.wait(cb)
	if values[1] != 0 {
		t.Error("the rest did not run")
	}
}
