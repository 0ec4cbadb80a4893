package primitives

import (
	"sync/atomic"

	"github.com/gomoe/gomoe/exec"
)

// chunked is a.Parallel for work that takes hardly longer than starting a goroutine: each thread
// takes the next piece when it is ready, so that no thread waits for one that starts late or
// loses its processor for a while. A thread has a range, whose pieces follow each other, so that what
// it reads does, until it takes those that others have not begun. Pieces become smaller towards the
// end, down to grain/chunkPart, so that all threads end together. Ranges are cut at multiples of unit.
// The result of f must not depend on how 0..n is cut. f gets the number of the thread's range, below a.Threads or 0, which no two
// calls at the same time have.
func chunked(a *exec.Args, n, grain, unit int, f func(thread, lo, hi int)) {
	if a.Dry() != nil {
		return
	}
	if a.Alone(n, grain) {
		f(0, 0, n)
		return
	}
	units, least := (n+unit-1)/unit, max(grain/chunkPart/unit, 1)
	ranges := make([]chunks, a.Threads)
	for t := range ranges {
		ranges[t].end = units * (t + 1) / len(ranges)
		ranges[t].next.Store(int64(units * t / len(ranges)))
	}
	a.Parallel(a.Threads, 1, func(own, _ int) {
		for i := range ranges {
			r := &ranges[(own+i)%len(ranges)]
			for lo, hi := r.take(least); lo < hi; lo, hi = r.take(least) {
				f(own, lo*unit, min(hi*unit, n))
			}
		}
	})
}

const (
	// The smallest piece is so much of a grain: 32 KB of weights, which memory delivers in one and a half
	// microseconds. Weights are fetched 12 KB ahead.
	chunkPart = 4
	// A piece is so much of what is left of a range.
	chunkShare = 4
)

// chunks is the range of a thread.
type chunks struct {
	next atomic.Int64 // the first unit that nobody has taken
	end  int
	_    [48]byte // threads do not share cache lines
}

// take returns the units of the next piece, of at least `least` if there are so many; none if all are taken.
func (r *chunks) take(least int) (lo, hi int) {
	for {
		at := int(r.next.Load())
		size := min(max((r.end-at)/chunkShare, least), r.end-at)
		if size <= 0 {
			return 0, 0
		}
		if r.next.CompareAndSwap(int64(at), int64(at+size)) {
			return at, at + size
		}
	}
}
