package work

import (
	"sync/atomic"

	"github.com/gomoe/gomoe/exec"
)

// Steal calls f, in parallel, for ranges that together cover 0..n once. It is a.Parallel with work
// stealing, for work that takes hardly longer than starting a goroutine: no thread waits for one that
// starts late or loses its processor for a while.
//
// Each thread works through a contiguous range, so its reads are sequential. When its own range is empty
// it steals pieces of other ranges. Pieces become smaller towards the end of a range, down to a part of
// grain, so that all threads end together. Pieces begin at multiples of unit. The result of f must not
// depend on how 0..n is cut. f gets the number of the calling thread, which is 0 or below a.Threads;
// no two concurrent calls have the same.
func Steal(a *exec.Args, n, grain, unit int, f func(thread, lo, hi int)) {
	if a.Dry() != nil {
		return
	}
	if a.Alone(n, grain) {
		f(0, 0, n)
		return
	}
	units, least := (n+unit-1)/unit, max(grain/leastPiece/unit, 1)
	ranges := make([]stealingRange, a.Threads)
	for t := range ranges {
		ranges[t].end = units * (t + 1) / len(ranges)
		ranges[t].next.Store(int64(units * t / len(ranges)))
	}
	a.Parallel(a.Threads, 1, func(own, _ int) {
		for i := range ranges {
			r := &ranges[(own+i)%len(ranges)]
			for lo, hi := r.claim(least); lo < hi; lo, hi = r.claim(least) {
				f(own, lo*unit, min(hi*unit, n))
			}
		}
	})
}

const (
	// leastPiece is the number of smallest pieces in a grain. For weights, such a piece has 32 KB, which
	// memory delivers in one and a half microseconds. Weights are prefetched 12 KB ahead.
	leastPiece = 4
	// pieces is the number of pieces of the next piece's size in the rest of a range.
	pieces = 4
)

// stealingRange is the range of a thread, from which other threads steal.
type stealingRange struct {
	next atomic.Int64 // the first unclaimed unit
	end  int
	_    [48]byte // threads do not share cache lines
}

// claim returns the units of the next piece, at least `least` of them unless fewer are left. If all units
// are claimed it returns an empty range.
func (r *stealingRange) claim(least int) (lo, hi int) {
	for {
		at := int(r.next.Load())
		size := min(max((r.end-at)/pieces, least), r.end-at)
		if size <= 0 {
			return 0, 0
		}
		if r.next.CompareAndSwap(int64(at), int64(at+size)) {
			return at, at + size
		}
	}
}
