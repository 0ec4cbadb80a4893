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

// Crew is the set of threads shared by the ranks of a session: the ranks' own threads,
// and helpers running pieces of their kernels. There are only as many helpers as idle
// processors, so while some ranks wait in a collective, the other ranks get their
// processors. Results do not depend on the assignment of pieces to threads.
//
// A helper without work polls for up to a third of a millisecond, then sleeps, and ends
// after a second; it polls for less if other programs need its processor. Close ends all
// helpers at once. Several goroutines may call the methods at once. A nil Crew has no
// helpers.
type Crew struct {
	limit   int32        // largest number of busy threads, 0 for one per processor
	procs   atomic.Int32 // number of processors when the last step began
	busy    atomic.Int32 // ranks that compute, and helpers with work
	crowded atomic.Int32 // number of times left to poll only briefly

	mu      sync.Mutex
	idle    []*helper // the helper that became idle last is used first, because it may still be polling
	forks   []*fork
	helpers int
	closed  bool
	ended   sync.WaitGroup
}

const (
	// looks, times looksAtOnce, is the number of polls of a helper before it sleeps: some
	// 300 µs. Waking up takes 5 to 50 µs, and the serial work of a rank between two
	// shared kernels 10 to 200 µs. When polling took 30 µs, a rank worked alone for 0.65
	// ms of the 7 ms of a token of OLMoE in q4_k while its helper woke up. Other
	// goroutines run after every looksAtOnce looks. These are counts and not times,
	// because clocks may stand still in tests.
	looks, looksAtOnce = 60, 2048
	// If looksAtOnce looks take longer than absent, another goroutine or program has used
	// the processor. Polling then ends, and the next crowd polls have only fewLooks, like
	// every wait of a rank for its helpers.
	absent          = 200 * time.Microsecond
	fewLooks, crowd = 6, 64
	// keepFor is the time that a helper sleeps before its goroutine ends.
	keepFor = time.Second
)

// NewCrew returns a crew keeping at most limit threads busy, including the ranks' own; 0
// means GOMAXPROCS.
func NewCrew(limit int) *Crew {
	c := &Crew{limit: int32(limit)}
	c.procs.Store(int32(runtime.GOMAXPROCS(0)))
	return c
}

// Enter marks a rank as computing. Leave marks it as waiting for others or done.
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

// Step is called when a step begins, because the number of processors may have
// changed.
func (c *Crew) Step() { c.procs.Store(int32(runtime.GOMAXPROCS(0))) }

// spare returns the number of further helpers that may work.
func (c *Crew) spare() int {
	limit := c.limit
	if limit == 0 {
		limit = c.procs.Load()
	}
	return int(limit - c.busy.Load())
}

// Close ends the helpers and returns when they have ended. Kernels then run
// without helpers. Close may be called twice.
func (c *Crew) Close() {
	c.mu.Lock()
	c.closed = true
	for _, h := range c.idle {
		h.rouse()
	}
	c.mu.Unlock()
	c.ended.Wait()
}

// helper is a goroutine that works on pieces of forks.
type helper struct {
	crew *Crew
	work atomic.Pointer[fork] // the work to do: claimed by the helper, or reclaimed by the rank that gave it
	wake chan struct{}
}

func (h *helper) rouse() {
	select {
	case h.wake <- struct{}{}:
	default: // the helper is being woken already
	}
}

// fork is one call of Share.
type fork struct {
	w        Work
	n, parts int
	next     atomic.Int32 // the next unclaimed piece
	open     atomic.Int32 // helpers working, and the rank itself
	done     chan struct{}
	given    []*helper

	mu     sync.Mutex
	panics []error // by piece; nil unless a piece panics
}

// take returns a fork after giving it to up to parts-1 helpers.
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

// run runs the fork on the caller's thread and its helpers, and returns when all
// pieces are done.
func (c *Crew) run(n, parts int, w Work) {
	k := c.take(n, parts, w)
	k.pieces()
	for _, h := range k.given { // helpers that have not begun are no longer needed
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

// wait returns when the last helper is done; that helper signals it.
func (k *fork) wait(c *Crew) {
	c.look(1, func() bool { return len(k.done) > 0 })
	<-k.done
}

// pieces runs pieces until there are no more.
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

// free adds h to the idle helpers.
func (c *Crew) free(h *helper) {
	c.busy.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, h)
	if c.closed {
		h.rouse()
	}
}

// look polls ready for a while, if processors are idle, and returns its last answer.
// Between polls it lets other goroutines run. own is 1 if the caller counts as busy
// itself, as a rank does while waiting for its helpers, and 0 otherwise. A rank polls
// only briefly: its helpers have little work left, and if they lack a processor, it may
// be this one.
func (c *Crew) look(own int32, ready func() bool) bool {
	if c.busy.Load()-own >= c.procs.Load() {
		return ready()
	}
	most := looks
	switch {
	case own > 0:
		most = fewLooks
	case c.crowded.Load() > 0:
		c.crowded.Add(-1)
		most = fewLooks
	}
	clock := time.Now()
	for range most {
		for range looksAtOnce {
			if ready() {
				return true
			}
		}
		if c.busy.Load()-own >= c.procs.Load() {
			break
		}
		runtime.Gosched()
		now := time.Now()
		if now.Sub(clock) > absent {
			c.crowded.Store(crowd)
			break
		}
		clock = now
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
		if h.crew.look(0, func() bool { return h.work.Load() != nil || len(h.wake) > 0 }) {
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

// ends removes h from the crew if the crew is closed, or if h has slept for keepFor,
// unless h has been given work in the meantime.
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
