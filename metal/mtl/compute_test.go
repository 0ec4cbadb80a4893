package mtl

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/standin"
)

func TestThreadgroupMemory(t *testing.T) {
	for _, order := range []standin.Order{standin.Forward, standin.Reverse, standin.Random} {
		b := stand(t, standin.Options{Order: order, Seed: 5})
		in, _ := b.floats(ramp(256)...)
		out, view := b.floats(make([]float32, 4)...)
		b.wait(b.encode(func(cb *CommandBuffer) {
			e := cb.Compute(false)
			e.PushDebugGroup("sums")
			e.SetPipeline(b.pipeline("sums"))
			e.SetBuffer(0, in, 0)
			e.SetBuffer(1, out, 0)
			e.SetThreadgroupMemory(0, 4*64-4) // rounded up
			e.Dispatch([3]int{4, 1, 1}, [3]int{64, 1, 1})
			e.PopDebugGroup()
			e.End()
		}))
		for g, v := range view {
			if want := float32(64*g*64 + 64*63/2); v != want {
				t.Errorf("order %d: the sum of group %d is %v, want %v", order, g, v, want)
			}
		}
	}
}

// Dispatches of a concurrent encoder run in any order unless there is a barrier: here,
// last first.
func TestBarrier(t *testing.T) {
	for _, c := range []struct {
		concurrent, barrier bool
		want                float32
	}{{false, false, 3}, {true, true, 3}, {true, false, 2}} {
		b := stand(t, standin.Options{Order: standin.Reverse})
		x, _ := b.floats(0)
		y, _ := b.floats(0)
		z, view := b.floats(0)
		b.wait(b.encode(func(cb *CommandBuffer) {
			e := cb.Compute(c.concurrent)
			b.add(e, x, y, 1)
			if c.barrier {
				e.Barrier()
			}
			b.add(e, y, z, 2)
			e.End()
		}))
		if view[0] != c.want {
			t.Errorf("concurrent %v, with a barrier %v: %v, want %v", c.concurrent, c.barrier, view[0], c.want)
		}
	}
}

// The same buffer at another offset is another argument.
func TestOffset(t *testing.T) {
	b := stand(t, standin.Options{})
	in, _ := b.floats(1, 2, 3, 4, 5, 6, 7, 8)
	first, x := b.floats(0)
	second, y := b.floats(0)
	b.wait(b.encode(func(cb *CommandBuffer) {
		e := cb.Compute(false)
		for offset, out := range map[int]*Buffer{0: first, 16: second} {
			e.SetPipeline(b.pipeline("add"))
			e.SetBuffer(0, in, offset)
			e.SetBuffer(1, out, 0)
			e.SetBytes(2, shape(1, 10))
			e.Dispatch([3]int{1, 1, 1}, [3]int{32, 1, 1})
		}
		e.End()
	}))
	if x[0] != 11 || y[0] != 15 {
		t.Errorf("from bytes 0 and 16: %v and %v, want 11 and 15", x[0], y[0])
	}
}

// A mistake in a debug group is the error, and the group ends with the encoder.
func TestMistakeInGroup(t *testing.T) {
	b := stand(t, standin.Options{})
	_, err := b.queue.Encode("grouped", func(cb *CommandBuffer) error {
		e := cb.Compute(false)
		e.PushDebugGroup("outer")
		e.PushDebugGroup("inner")
		e.SetPipeline(b.pipeline("add"))
		e.SetBuffer(0, nil, 0)
		e.PopDebugGroup()
		e.PopDebugGroup()
		require.ErrorContains(t, cb.Mistake(), "set buffer 0: it is nil")
		e.End()
		return nil
	})
	require.EqualError(t, err, "mtl: command buffer grouped: set buffer 0: it is nil")
}

// What goes wrong in a kernel is in the error of the command buffer, with its name.
func TestKernelFaults(t *testing.T) {
	for _, name := range []string{"divergent", "overrun"} {
		b := stand(t, standin.Options{})
		out, _ := b.floats(ramp(64)...)
		cb := b.encode(func(cb *CommandBuffer) {
			e := cb.Compute(false)
			e.SetPipeline(b.pipeline(name))
			e.SetBuffer(0, out, 0)
			e.Dispatch([3]int{1, 1, 1}, [3]int{64, 1, 1})
			e.End()
		})
		err := cb.Wait(t.Context())
		require.ErrorContains(t, err, "kernel "+name)
		t.Log(err)
	}
}

// A structure in the shader that is longer than the bytes that were set is a fault.
func TestShortBytes(t *testing.T) {
	b := stand(t, standin.Options{})
	x, _ := b.floats(ramp(32)...)
	cb := b.encode(func(cb *CommandBuffer) {
		e := cb.Compute(false)
		e.SetPipeline(b.pipeline("add"))
		e.SetBuffer(0, x, 0)
		e.SetBuffer(1, x, 0)
		e.SetBytes(2, shape(32, 1)[:4])
		e.Dispatch([3]int{1, 1, 1}, [3]int{32, 1, 1})
		e.End()
	})
	require.ErrorContains(t, cb.Wait(t.Context()), "buffer 2 (constant Shape& shape)")
}

// Arguments that the driver cannot know of are checked by the stand-in.
func TestUnboundBuffer(t *testing.T) {
	b := stand(t, standin.Options{})
	b.bad = []string{"dispatch of add: buffer 1 (device float* out) is not bound", "dispatch of sums: threadgroup memory 0 (threadgroup float* part) has no length"}
	x, _ := b.floats(ramp(64)...)
	b.wait(b.encode(func(cb *CommandBuffer) {
		e := cb.Compute(false)
		e.SetPipeline(b.pipeline("add"))
		e.SetBuffer(0, x, 0)
		e.SetBytes(2, shape(1, 1))
		e.Dispatch([3]int{1, 1, 1}, [3]int{32, 1, 1})
		e.SetPipeline(b.pipeline("sums"))
		e.SetBuffer(1, x, 0)
		e.Dispatch([3]int{1, 1, 1}, [3]int{64, 1, 1})
		e.End()
	}))
}

// A kernel that does not end is stopped, and the next runs.
func TestEndlessKernel(t *testing.T) {
	b := stand(t, standin.Options{Limit: 100 * time.Millisecond})
	x, values := b.floats(0, 0)
	encode := func(name string) *CommandBuffer {
		return b.encode(func(cb *CommandBuffer) {
			e := cb.Compute(false)
			e.SetPipeline(b.pipeline(name))
			e.SetBuffer(0, x, 0)
			e.SetBuffer(1, x, 0)
			e.SetBytes(2, shape(2, 3))
			e.Dispatch([3]int{1, 1, 1}, [3]int{2, 1, 1})
			e.End()
		})
	}
	endless, next := encode("endless"), encode("add")
	require.ErrorContains(t, endless.Wait(t.Context()), "it ran for more than 100 ms: Caused GPU Hang Error")
	b.wait(next)
	if values[1] != 3 {
		t.Errorf("the next wrote %v, want 3", values[1])
	}
}
