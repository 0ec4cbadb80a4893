package metal_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal"
	"github.com/gomoe/gomoe/runtime"
)

// faultyDevice is a device whose queues have a fault.
type faultyDevice struct {
	runtime.Device
	queue func(runtime.Queue) runtime.Queue
	alloc func(n int) ([]byte, func(), error) // nil is the device's
}

func (d *faultyDevice) Open(ctx context.Context, p *lowering.Plan, rank int) (runtime.Queue, error) {
	q, err := d.Device.Open(ctx, p, rank)
	if err != nil || d.queue == nil {
		return q, err
	}
	return d.queue(q), nil
}

func (d *faultyDevice) Alloc(n int) ([]byte, func(), error) {
	if d.alloc != nil {
		return d.alloc(n)
	}
	return d.Device.Alloc(n)
}

// faultyQueue calls what it has instead of the queue's methods.
type faultyQueue struct {
	runtime.Queue
	encode func(i int, bufs []array.Array) error
	commit func() (uint64, error)
	wait   func(ctx context.Context, ticket uint64) error
}

func (q *faultyQueue) Encode(i int, bufs []array.Array) error {
	if q.encode != nil {
		return q.encode(i, bufs)
	}
	return q.Queue.Encode(i, bufs)
}

func (q *faultyQueue) Commit() (uint64, error) {
	if q.commit != nil {
		return q.commit()
	}
	return q.Queue.Commit()
}

func (q *faultyQueue) Wait(ctx context.Context, ticket uint64) error {
	if q.wait != nil {
		return q.wait(ctx, ticket)
	}
	return q.Queue.Wait(ctx, ticket)
}

// seed is a fault in how a plan is run on a device, which the emulated GPU has to show.
type seed struct {
	name  string
	queue func(q runtime.Queue) *faultyQueue
	alloc func(n int) ([]byte, func(), error)
	want  string // part of the step's error, or of what is wrong with its results
}

// seeds are the faults. These have tables of their own:
//
//   - kernels, in TestSeeds of package metaltest: barriers, rows nobody writes, strides,
//     edges, orders, address spaces;
//   - messages to Metal, in TestViolations of package standin: a missing or a late retain of
//     a command buffer, over-release, use after release, misaligned memory, arguments that
//     are not bound, threadgroup memory without a length, encoders left open or opened
//     twice, commits and waits out of order;
//   - the driver, in package mtl: TestMistakes, TestReadBeforeWait, TestUnboundBuffer,
//     TestThreadgroupMemory, TestBufferOverMisaligned, TestUnmappedTooSoon;
//   - the emulated GPU itself, in TestFaults of package emu.
func seeds() []seed {
	const poison = "NaN"
	return []seed{
		{name: "no wait", want: poison, queue: func(q runtime.Queue) *faultyQueue {
			return &faultyQueue{Queue: q, wait: func(context.Context, uint64) error { return nil }}
		}},
		{name: "the first wait is left out", want: poison, queue: func(q runtime.Queue) *faultyQueue {
			n := 0
			return &faultyQueue{Queue: q, wait: func(ctx context.Context, ticket uint64) error {
				if n++; n == 1 {
					return nil
				}
				return q.Wait(ctx, ticket)
			}}
		}},
		{name: "a wait for the segment before", want: poison, queue: func(q runtime.Queue) *faultyQueue {
			return &faultyQueue{Queue: q, wait: func(ctx context.Context, ticket uint64) error { return q.Wait(ctx, ticket-1) }}
		}},
		{name: "a wait for a segment that does not come", want: "waiting for segment", queue: func(q runtime.Queue) *faultyQueue {
			return &faultyQueue{Queue: q, wait: func(ctx context.Context, ticket uint64) error { return q.Wait(ctx, ticket+1) }}
		}},
		{name: "a segment is not handed over", want: poison, queue: func(q runtime.Queue) *faultyQueue {
			last := uint64(0)
			return &faultyQueue{Queue: q,
				commit: func() (uint64, error) { last++; return last, nil },
				wait:   func(context.Context, uint64) error { return q.Wait(context.Background(), 0) }}
		}},
		{name: "an instruction is left out", want: poison, queue: func(q runtime.Queue) *faultyQueue {
			n := 0
			return &faultyQueue{Queue: q, encode: func(i int, bufs []array.Array) error {
				if n++; n == 1 {
					return nil
				}
				return q.Encode(i, bufs)
			}}
		}},
		{name: "memory that the GPU does not see", want: "the GPU does not see", alloc: func(n int) ([]byte, func(), error) {
			return make([]byte, n), func() {}, nil
		}},
	}
}

// Every fault is caught on a GPU that does nothing before somebody waits, and what has none
// passes.
func TestSeeds(t *testing.T) {
	p := model(t, 8, 40)
	in := map[string]array.Array{"x": random(1, 8, 40), "w": random(2, 40), "b": random(9, 40)}
	want, err := gomoe.Run(t.Context(), p, onTwo(nil, nil), in)
	require.NoError(t, err)
	for _, s := range append([]seed{{name: "none"}}, seeds()...) {
		t.Run(s.name, func(t *testing.T) {
			d := &faultyDevice{Device: emulated(t, metal.Emulation{}), alloc: s.alloc}
			if s.queue != nil {
				d.queue = func(q runtime.Queue) runtime.Queue { return s.queue(q) }
			}
			got := "nothing"
			cfg := onTwo(d, nil)
			cfg.Poison = true // what nobody has written yet is NaN
			out, err := gomoe.Run(t.Context(), p, cfg, in)
			if err != nil {
				got = err.Error()
			}
			for i := range out {
				if first := firstWrong(out[i], want[i]); first != "" {
					got = fmt.Sprintf("result %d: %s", i, first)
					break
				}
			}
			if s.want == "" {
				require.Equal(t, "nothing", got)
				return
			}
			require.Contains(t, got, s.want)
		})
	}
}

// firstWrong describes the first element that is not near what it should be.
func firstWrong(got, want array.Array) string {
	x, y := got.Float64s(), want.Float64s()
	for i := range x {
		if !(math.Abs(x[i]-y[i]) <= 1e-5*max(1, math.Abs(y[i]))) {
			return fmt.Sprintf("element %d is %v, want %v", i, x[i], y[i])
		}
	}
	return ""
}
