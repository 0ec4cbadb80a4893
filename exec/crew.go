package exec

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Crew are the threads that the ranks of a session share: the ranks' own, and
// helpers that take pieces of their kernels. There are helpers only as far as
// processors would be idle otherwise, so a rank whose peers wait in a
// collective has the processors that they do without. Results do not depend on
// who helps.
//
// A helper that has nothing to do looks for work for some microseconds, then
// sleeps, and ends after a second. Close ends all at once. The methods may be
// called by several goroutines; a nil Crew has no helpers.
type Crew struct {
	limit int32        // threads that may be busy at once, 0 for one per processor
	procs atomic.Int32 // processors, when a rank was last here
	busy  atomic.Int32 // ranks that compute, and helpers with work

	mu      sync.Mutex
	idle    []*helper // the last one to be idle is the first to work: it may still look
	forks   []*fork
	helpers int
	closed  bool
	ended   sync.WaitGroup
}

const (
	// looks is how often a helper looks for work, and a rank for its helpers' end,
	// before it sleeps, which takes some 30 µs: to be woken takes 5 to 50. It is a
	// number and not a time, since clocks may stand still in tests.
	looks, looksAtOnce = 150, 64
	// keepFor is how long a helper sleeps before it ends.
	keepFor = time.Second
)

// NewCrew returns a crew that keeps at most limit threads busy, the ranks'
// among them; 0 is as many as there are processors for Go code.
func NewCrew(limit int) *Crew {
	c := &Crew{limit: int32(limit)}
	c.procs.Store(int32(runtime.GOMAXPROCS(0)))
	return c
}

// Enter says that a rank computes from now on, Leave that it does not: it waits
// for others, or is done.
func (c *Crew) Enter() {
	if c != nil {
		c.busy.Add(1)
	}
}

// Leave is the opposite of Enter.
func (c *Crew) Leave() {
	if c != nil {
		c.busy.Add(-1)
	}
}

// Step is called when a step begins: the number of processors may have changed.
func (c *Crew) Step() { c.procs.Store(int32(runtime.GOMAXPROCS(0))) }

// spare returns how many helpers there is room for.
func (c *Crew) spare() int {
	limit := c.limit
	if limit == 0 {
		limit = c.procs.Load()
	}
	return int(limit - c.busy.Load())
}

// Close ends the helpers and returns when they have ended. Kernels run without
// them from then on. It may be called twice.
func (c *Crew) Close() {
	c.mu.Lock()
	c.closed = true
	for _, h := range c.idle {
		h.rouse()
	}
	c.mu.Unlock()
	c.ended.Wait()
}

// helper is a goroutine that takes pieces of forks.
type helper struct {
	crew *Crew
	work atomic.Pointer[fork] // to be taken: by the helper, or back by who gave it
	wake chan struct{}
}

func (h *helper) rouse() {
	select {
	case h.wake <- struct{}{}:
	default: // it is being woken already
	}
}

// fork is a call of Share.
type fork struct {
	w        Work
	n, parts int
	next     atomic.Int32 // the piece that nobody has taken yet
	open     atomic.Int32 // helpers that are at work, and the rank itself
	done     chan struct{}
	given    []*helper

	mu     sync.Mutex
	panics []error // by piece; nil unless one panics
}

// take returns a fork, with up to parts-1 helpers that were given it.
func (c *Crew) take(n, parts int, w Work) *fork {
	c.mu.Lock()
	defer c.mu.Unlock()
	var k *fork
	if last := len(c.forks) - 1; last >= 0 {
		k, c.forks = c.forks[last], c.forks[:last]
	} else {
		k = &fork{done: make(chan struct{}, 1)}
	}
	k.w, k.n, k.parts = w, n, parts
	k.next.Store(0)
	k.open.Store(1)
	for len(k.given) < parts-1 && !c.closed && c.spare() > 0 {
		var h *helper
		if last := len(c.idle) - 1; last >= 0 {
			h, c.idle = c.idle[last], c.idle[:last]
		} else {
			h = &helper{crew: c, wake: make(chan struct{}, 1)}
			c.helpers++
			c.ended.Add(1)
			go h.run()
		}
		c.busy.Add(1)
		k.given = append(k.given, h)
		k.open.Add(1)
		h.work.Store(k)
		h.rouse()
	}
	return k
}

// run runs the fork on the caller's thread and returns when all pieces are
// done.
func (c *Crew) run(n, parts int, w Work) {
	k := c.take(n, parts, w)
	k.pieces()
	for _, h := range k.given { // whoever has not begun need not
		if h.work.CompareAndSwap(k, nil) {
			k.open.Add(-1)
			c.free(h)
		}
	}
	if k.open.Add(-1) > 0 {
		k.wait(c)
	}
	panics := k.panics
	k.w, k.panics, k.given = nil, nil, k.given[:0]
	c.mu.Lock()
	c.forks = append(c.forks, k)
	c.mu.Unlock()
	for _, err := range panics {
		if err != nil {
			panic(err)
		}
	}
}

// wait returns when the last helper is done, which signals it.
func (k *fork) wait(c *Crew) {
	if c.look(func() bool { return len(k.done) > 0 }) {
		<-k.done
		return
	}
	<-k.done
}

// pieces runs pieces until none is left.
func (k *fork) pieces() {
	for {
		p := int(k.next.Add(1)) - 1
		if p >= k.parts {
			return
		}
		k.piece(p)
	}
}

func (k *fork) piece(p int) {
	defer func() {
		if r := recover(); r != nil {
			k.mu.Lock()
			defer k.mu.Unlock()
			if k.panics == nil {
				k.panics = make([]error, k.parts)
			}
			k.panics[p] = fmt.Errorf("%v\n%s", r, debug.Stack())
		}
	}()
	k.w.Piece(k.n*p/k.parts, k.n*(p+1)/k.parts)
}

// free makes h idle again.
func (c *Crew) free(h *helper) {
	c.busy.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, h)
	if c.closed {
		h.rouse()
	}
}

// look asks ready for a while, if processors are idle, and reports what it said
// last. It lets others run meanwhile.
func (c *Crew) look(ready func() bool) bool {
	if c.busy.Load() >= c.procs.Load() {
		return ready()
	}
	for i := range looks * looksAtOnce {
		if ready() {
			return true
		}
		if i%looksAtOnce == 0 {
			if c.busy.Load() >= c.procs.Load() {
				break
			}
			runtime.Gosched()
		}
	}
	return ready()
}

func (h *helper) run() {
	defer h.crew.ended.Done()
	asleep := time.NewTimer(keepFor)
	for {
		if k := h.work.Load(); k != nil {
			if h.work.CompareAndSwap(k, nil) {
				k.pieces()
				h.crew.free(h)
				if k.open.Add(-1) == 0 {
					k.done <- struct{}{}
				}
			}
			continue
		}
		if h.crew.look(func() bool { return h.work.Load() != nil || len(h.wake) > 0 }) {
			select {
			case <-h.wake:
			default:
			}
			if h.crew.ends(h, false) {
				return
			}
			continue
		}
		asleep.Reset(keepFor)
		select {
		case <-h.wake:
			asleep.Stop()
			if h.crew.ends(h, false) {
				return
			}
		case <-asleep.C:
			if h.crew.ends(h, true) {
				return
			}
		}
	}
}

// ends takes h from the crew if that is closed, or if h has slept for long. It
// does not if h has been given work meanwhile.
func (c *Crew) ends(h *helper, slept bool) bool {
	if !slept && h.work.Load() != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.idle, h)
	if i < 0 || !c.closed && !slept {
		return false
	}
	c.idle = slices.Delete(c.idle, i, i+1)
	c.helpers--
	return true
}
