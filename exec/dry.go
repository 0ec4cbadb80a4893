package exec

import (
	"math"

	"github.com/gomoe/gomoe/internal/kernel"
)

// Dry counts the memory that kernels use in addition to their arguments and results. It
// does so in dry runs: a kernel gets arrays with a type and without memory (see
// array.Outline), and the code computing the size of its memory runs as in a step. A dry
// run reads and writes no elements: MakeDirty returns no elements, and Share runs only
// one piece of a Taker and none of other Work.
//
// The zero Dry has counted nothing. It is for one goroutine.
type Dry struct {
	thread  kernel.Dry
	shared  int64
	buffers map[any]int64 // by buffer, of all threads
	args    Args
}

// A kernel using fewer bytes of Scratch, or on a thread, than leastCounted is not
// counted.
const leastCounted = 8 << 10

// Taker is a Work with pieces using memory on their threads, such as matrix products.
// Their Piece passes Args.Dry to the allocating code.
type Taker interface {
	Work
	taker()
}

// Taking makes a Work in which it is embedded a Taker.
type Taking struct{}

func (Taking) taker() {}

// Run does a dry run of k with arrays of these types, on the given number of threads of a
// rank of a.Mesh. If k returns an error, the memory used until then is counted.
func (d *Dry) Run(k Kernel, a Args) {
	scratch := Scratch{dry: &d.thread, busy: 1}
	d.args = a
	d.args.Scratch = &scratch
	_ = k(&d.args) // a step will return the error
	if n := times(int64(scratch.used), 8); n >= leastCounted {
		d.shared = max(d.shared, n)
	}
	taken, sum := d.thread.Taken(), int64(0)
	for _, n := range taken {
		sum = plus(sum, n)
	}
	if sum < leastCounted {
		return
	}
	if d.buffers == nil {
		d.buffers = map[any]int64{}
	}
	for buf, n := range taken {
		d.buffers[buf] = max(d.buffers[buf], times(n, int64(scratch.busy)))
	}
}

// Shared returns the largest number of bytes that a kernel has used of Args.Scratch.
func (d *Dry) Shared() int64 { return d.shared }

// OnThreads returns the total bytes of the buffers that threads keep between kernels.
// Kernels that use the same buffer share its memory.
func (d *Dry) OnThreads() int64 {
	var sum int64
	for _, n := range d.buffers {
		sum = plus(sum, n)
	}
	return sum
}

// plus and times saturate at the largest int64, as for absurd shapes.
func plus(x, y int64) int64 {
	if x > math.MaxInt64-y {
		return math.MaxInt64
	}
	return x + y
}

func times(x, y int64) int64 {
	if x > math.MaxInt64/y {
		return math.MaxInt64
	}
	return x * y
}

// Dry returns the counter of memory used on this thread, nil if the run is not a dry run.
func (a *Args) Dry() *kernel.Dry {
	if a.Scratch == nil {
		return nil
	}
	return a.Scratch.dry
}
