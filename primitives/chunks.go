package primitives

import (
	"sync/atomic"

	"github.com/gomoe/gomoe/exec"
)

// chunksPerThread is the least number of pieces of work per thread, so that others can
// do the share of a thread that starts late or loses its processor for a while.
const chunksPerThread = 8

// chunked is a.Parallel for work that takes hardly longer than starting a goroutine:
// each thread takes the next piece, of at least grain/4, when it is ready, so that no
// thread waits for one that starts late. A thread's pieces follow each other, so that
// what it reads does, until it takes those that others have not begun. f must not depend
// on how 0..n is cut.
func chunked(a *exec.Args, n, grain int, f func(lo, hi int)) {
	if a.Dry() != nil {
		return
	}
	if a.Alone(n, grain) {
		f(0, n)
		return
	}
	chunks := min(chunksPerThread*a.Threads, max(n/max(grain/4, 1), 1))
	next := make([]atomic.Int64, a.Threads) // of each thread, how many of its pieces are taken
	a.Parallel(a.Threads, 1, func(own, _ int) {
		for i := range next {
			t := (own + i) % len(next)
			from, to := chunks*t/len(next), chunks*(t+1)/len(next)
			for c := from + int(next[t].Add(1)) - 1; c < to; c = from + int(next[t].Add(1)) - 1 {
				f(n*c/chunks, n*(c+1)/chunks)
			}
		}
	})
}
