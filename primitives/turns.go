package primitives

import (
	"sync"
	"sync/atomic"
)

// turns hands out work on sums, each of which has so many addends. Workers take the addends
// in order and make them beside each other; then each waits until those before its
// own have been added, so that a sum is the same bits whoever was first. What a worker
// waits for has been taken before, by another that does not wait for it.
type turns struct {
	sums, each int
	take       int // addends that are taken at once, which divides each
	next       atomic.Int64
	mu         sync.Mutex
	moved      sync.Cond
	added      []int // of each sum
	failed     bool
}

// start makes the zero turns some of which none is taken; added is zeros.
func (t *turns) start(sums, each int, added []int) {
	t.sums, t.each, t.take, t.added = sums, each, 1, added
	t.moved.L = &t.mu
}

// work calls f with a sum, and the first and the one after the last of some of its
// addends, until all are taken. If f panics, the others no longer wait.
func (t *turns) work(f func(sum, first, last int)) {
	ok := false
	defer func() {
		if !ok {
			t.mu.Lock()
			t.failed = true
			t.mu.Unlock()
			t.moved.Broadcast()
		}
	}()
	for {
		at := int(t.next.Add(int64(t.take))) - t.take
		if at >= t.sums*t.each {
			ok = true
			return
		}
		f(at/t.each, at%t.each, at%t.each+t.take)
	}
}

// wait blocks until so many addends have been added to a sum. It is false if a worker has
// panicked, and they may never be.
func (t *turns) wait(sum, added int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.added[sum] != added && !t.failed {
		t.moved.Wait()
	}
	return !t.failed
}

// done counts an addend.
func (t *turns) done(sum int) {
	t.mu.Lock()
	t.added[sum]++
	t.mu.Unlock()
	t.moved.Broadcast()
}
