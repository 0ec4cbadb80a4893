//go:build !race

package mtl

import (
	"testing"

	"github.com/gomoe/gomoe/metal/internal/standin"
)

// Setting arguments and dispatching allocates nothing in Go.
func TestDispatchAllocates(t *testing.T) {
	b := stand(t, standin.Options{})
	in, _ := b.floats(ramp(32)...)
	args, add := shape(0, 1), b.pipeline("add")
	var allocs float64
	b.wait(b.encode(func(cb *CommandBuffer) {
		e := cb.Compute(false)
		allocs = testing.AllocsPerRun(100, func() {
			e.SetPipeline(add)
			e.SetBuffer(0, in, 0)
			e.SetBuffer(1, in, 0)
			e.SetBytes(2, args)
			e.SetThreadgroupMemory(0, 64)
			e.Dispatch([3]int{1, 1, 1}, [3]int{1, 1, 1})
			e.Barrier()
		})
		e.End()
	}))
	if allocs != 0 {
		t.Errorf("%v allocations per dispatch, want none", allocs)
	}
}

// BenchmarkDispatch is what encoding a dispatch costs, its six messages and the stand-in
// that takes them; nothing of it runs.
func BenchmarkDispatch(bench *testing.B) {
	b := stand(bench, standin.Options{})
	in, _ := b.floats(ramp(32)...)
	args, add := shape(0, 1), b.pipeline("add")
	bench.ReportAllocs()
	for bench.Loop() {
		cb, err := b.queue.Encode("dispatches", func(cb *CommandBuffer) error {
			e := cb.Compute(false)
			for range 100 {
				e.SetPipeline(add)
				e.SetBuffer(0, in, 0)
				e.SetBuffer(1, in, 0)
				e.SetBytes(2, args)
				e.Dispatch([3]int{1, 1, 1}, [3]int{1, 1, 1})
			}
			e.End()
			return nil
		})
		if err != nil {
			bench.Fatal(err)
		}
		if err := cb.Wait(bench.Context()); err != nil {
			bench.Fatal(err)
		}
		cb.Close()
	}
}

// BenchmarkMessage is what one message costs that does next to nothing.
func BenchmarkMessage(bench *testing.B) {
	b := stand(bench, standin.Options{})
	event, err := b.device.SharedEvent()
	if err != nil {
		bench.Fatal(err)
	}
	defer event.Close()
	for bench.Loop() {
		event.Value()
	}
}
