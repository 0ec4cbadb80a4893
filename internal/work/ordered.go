package work

import (
	"sync"
	"sync/atomic"
)

// OrderedSums distributes the work on sums with equally many addends. Workers claim addends in order and
// compute them in parallel. Before a worker adds its addend, it waits until all earlier addends of the sum
// have been added, so the bits of a sum do not depend on which worker was first. Workers cannot wait for
// each other in a circle, because a worker waits only for addends claimed before its own.
type OrderedSums struct {
	sums, addends int
	claim         int // the number of addends that a worker claims at once, a divisor of addends
	next          atomic.Int64
	mu            sync.Mutex
	moved         sync.Cond
	added         []int // the number of addends added to each sum
	failed        bool
}

// Start prepares zero OrderedSums for sums with the given number of addends, of which a worker claims
// `claim` at once. added has a zero for each sum.
func (t *OrderedSums) Start(sums, addends, claim int, added []int) {
	t.sums, t.addends, t.claim, t.added = sums, addends, claim, added
	t.moved.L = &t.mu
}

// Work calls f with a sum and some of its addends, [first, last), until all addends are claimed. If f
// panics, other workers no longer wait.
func (t *OrderedSums) Work(f func(sum, first, last int)) {
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
		at := int(t.next.Add(int64(t.claim))) - t.claim
		if at >= t.sums*t.addends {
			ok = true
			return
		}
		f(at/t.addends, at%t.addends, at%t.addends+t.claim)
	}
}

// Wait blocks until `added` addends have been added to a sum, and then returns true. It returns false if
// a worker has panicked, because its addends are then never added.
func (t *OrderedSums) Wait(sum, added int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.added[sum] != added && !t.failed {
		t.moved.Wait()
	}
	return !t.failed
}

// Done counts an addend added to a sum.
func (t *OrderedSums) Done(sum int) {
	t.mu.Lock()
	t.added[sum]++
	t.mu.Unlock()
	t.moved.Broadcast()
}
