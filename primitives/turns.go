package primitives

import (
	"sync"
	"sync/atomic"
)

// turns hands out work on sums, each of which has `each` addends. Workers take addends in
// order and compute them in parallel. Then each worker waits until the addends before its
// own have been added, so that a sum has the same bits whichever worker was first. Workers
// cannot wait for each other in a circle: a worker waits only for addends that were taken
// before its own.
type turns struct {
	sums, each int
	take       int // how many addends a worker takes at once; a divisor of `each`
	next       atomic.Int64
	mu         sync.Mutex
	moved      sync.Cond
	added      []int // how many addends have been added to each sum
	failed     bool
}

// start makes zero turns ready for sums of `each` addends. added has a zero for each sum.
func (t *turns) start(sums, each int, added []int) {
	t.sums, t.each, t.take, t.added = sums, each, 1, added
	t.moved.L = &t.mu
}

// work calls f with a sum and some of its addends, [first, last), until all addends are
// taken. If f panics, other workers no longer wait.
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

// wait blocks until `added` addends have been added to a sum, and then returns true. It
// returns false if a worker has panicked, since its addends are then never added.
func (t *turns) wait(sum, added int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.added[sum] != added && !t.failed {
		t.moved.Wait()
	}
	return !t.failed
}

// done counts an addend that has been added to a sum.
func (t *turns) done(sum int) {
	t.mu.Lock()
	t.added[sum]++
	t.mu.Unlock()
	t.moved.Broadcast()
}
