package exec

import (
	"errors"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
)

// takes is Work that takes memory on its thread.
type takes struct {
	Taking
	a     *Args
	buf   *[]float64
	units int // elements that a unit of the work takes
}

func (w takes) Piece(lo, hi int) { kernel.Take(w.a.Dry(), w.buf, (hi-lo)*w.units) }

// touches is Work that reads elements, which a dry run has none of.
type touches struct{ x []float32 }

func (w touches) Piece(lo, hi int) { _ = w.x[hi-1] }

// A dry run counts what kernels take: of scratch memory the most of a kernel, and of each
// buffer of threads the most of a kernel on all of its threads. It reads no elements.
func TestDry(t *testing.T) {
	var one, two []float64
	kernel := func(bytes, n, grain int, buf *[]float64) Kernel {
		return func(a *Args) error {
			if x := MakeDirty[uint8](a, bytes); len(x) > 0 {
				t.Errorf("a dry run has %d bytes of scratch memory, want none", len(x))
			}
			if x := Make[int](a, 3); len(x) != 3 {
				t.Errorf("a dry run has %d numbers of Make, want 3", len(x))
			}
			a.Share(1000, 1, touches{array.Data[float32](a.In[0])})
			a.Parallel(1000, 1, func(lo, hi int) { t.Error("a dry run calls a function for elements") })
			a.Share(n, grain, takes{a: a, buf: buf, units: 100})
			return errors.New("as a step would return it")
		}
	}
	args := Args{Threads: 4, In: []array.Array{array.Outline(graph.T(graph.F32, 1<<40))}}
	var d Dry
	for _, c := range []struct {
		kernel            Kernel
		shared, onThreads int64
	}{
		{kernel(1000, 10, 1, &one), 0, 0}, // too little to be counted
		{kernel(20000, 100, 1, &one), 20024, 4 * 25 * 800},
		{kernel(10000, 100, 50, &one), 20024, 2 * 50 * 800},
		{kernel(50000, 90, 100, &one), 50024, 2 * 50 * 800},
		{kernel(50000, 60, 10, &two), 50024, 2*50*800 + 4*15*800},
	} {
		d.Run(c.kernel, args)
		if got := d.Shared(); got != c.shared {
			t.Errorf("%d bytes of scratch memory, want %d", got, c.shared)
		}
		if got := d.OnThreads(); got != c.onThreads {
			t.Errorf("%d bytes on threads, want %d", got, c.onThreads)
		}
	}
	if len(one)+len(two) > 0 || args.Dry() != nil {
		t.Error("a dry run allocated memory, or left its arguments dry")
	}
}
