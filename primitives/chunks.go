package primitives

import (
	"sync/atomic"

	"github.com/gomoe/gomoe/exec"
)

// chunksPerThread is how many pieces of work a thread finds at least, if it starts
// late or has its processor taken away meanwhile and others do its share.
const chunksPerThread = 8

// chunked is a.Parallel for work that takes hardly longer than to start a
// goroutine: who comes first takes the next piece, of at least grain/4, so that none
// waits for one that starts late. f must not depend on how 0..n is cut.
func chunked(a *exec.Args, n, grain int, f func(lo, hi int)) {
	if a.Alone(n, grain) {
		f(0, n)
		return
	}
	chunks := min(chunksPerThread*a.Threads, max(n/max(grain/4, 1), 1))
	var next atomic.Int64
	a.Parallel(a.Threads, 1, func(_, _ int) {
		for c := int(next.Add(1)) - 1; c < chunks; c = int(next.Add(1)) - 1 {
			f(n*c/chunks, n*(c+1)/chunks)
		}
	})
}
