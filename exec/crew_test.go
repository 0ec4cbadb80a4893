package exec

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Ranks that call Parallel at once, with helpers for some of them, visit every
// index once each time.
func TestCrew(t *testing.T) {
	for _, limit := range []int{0, 1, 2, 3, 16} {
		c := NewCrew(limit)
		var ranks sync.WaitGroup
		for range 4 {
			ranks.Go(func() {
				a := &Args{Threads: 5, Crew: c}
				c.Enter()
				defer c.Leave()
				seen := make([]int32, 1000)
				for round := int32(1); round <= 300; round++ {
					var pieces atomic.Int32
					n := len(seen) - int(round)%7
					a.Parallel(n, 1+int(round)%400, func(lo, hi int) {
						pieces.Add(1)
						for i := lo; i < hi; i++ {
							atomic.AddInt32(&seen[i], 1)
						}
					})
					if slices.ContainsFunc(seen[:n], func(k int32) bool { return k != 1 }) {
						t.Errorf("limit %d, round %d: visited %v", limit, round, seen)
						return
					}
					if p := int(pieces.Load()); p > 5 || limit > 0 && p > max(limit, 1) {
						t.Errorf("limit %d: %d pieces", limit, p)
					}
					clear(seen)
					if round%100 == 0 {
						c.Leave() // as in a collective
						runtime.Gosched()
						c.Enter()
					}
				}
			})
		}
		ranks.Wait()
		if n := c.busy.Load(); n != 0 {
			t.Errorf("limit %d: %d threads count as busy, want none", limit, n)
		}
		c.mu.Lock()
		if c.helpers != len(c.idle) || limit > 0 && c.helpers > max(limit-1, 0) {
			t.Errorf("limit %d: %d helpers, %d of them idle", limit, c.helpers, len(c.idle))
		}
		c.mu.Unlock()
		c.Close()
		c.Close()
		if c.helpers != 0 {
			t.Errorf("limit %d: %d helpers after Close", limit, c.helpers)
		}
		(&Args{Threads: 4, Crew: c}).Parallel(8, 1, func(lo, hi int) {}) // without helpers
	}
}

// Helpers work while the rank does, a piece may call Parallel itself, and panics
// come back to the caller, after which the crew goes on.
func TestCrewHelps(t *testing.T) {
	c := NewCrew(3)
	defer c.Close()
	c.Enter()
	defer c.Leave()
	a := &Args{Threads: 3, Crew: c}
	for range 20 {
		var meet sync.WaitGroup // nobody passes unless all three are there
		meet.Add(3)
		a.Parallel(3, 1, func(lo, hi int) {
			meet.Done()
			meet.Wait()
		})
		func() {
			defer func() {
				err, ok := recover().(error)
				if !ok || !strings.HasPrefix(err.Error(), "piece 1") || !strings.Contains(err.Error(), "crew_test.go:") {
					t.Errorf("recovered %v, want the lowest piece's panic with its stack", err)
				}
			}()
			a.Parallel(3, 1, func(lo, hi int) {
				if lo > 0 {
					panic("piece " + string(rune('0'+lo)))
				}
			})
			t.Error("Parallel returns")
		}()
		var n atomic.Int32
		a.Parallel(3, 1, func(lo, hi int) {
			a.Parallel(100, 1, func(lo, hi int) { n.Add(int32(hi - lo)) })
		})
		if n.Load() != 300 {
			t.Errorf("%d indexes visited by calls inside of pieces, want 300", n.Load())
		}
	}
}

// While others compute on all processors, nobody helps: Parallel is one call.
func TestCrewFull(t *testing.T) {
	c := NewCrew(2)
	defer c.Close()
	c.Enter()
	a := &Args{Threads: 2, Crew: c}
	if a.Alone(2, 1) {
		t.Error("alone, with a processor idle")
	}
	c.Enter()
	if !a.Alone(2, 1) {
		t.Error("not alone, with two ranks on two processors")
	}
	c.Leave()
	c.Leave()
}

// Helpers that have no work end by themselves.
func TestCrewEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCrew(4)
		c.Enter()
		a := &Args{Threads: 4, Crew: c}
		for range 3 {
			a.Parallel(4, 1, func(lo, hi int) { time.Sleep(time.Millisecond) })
			c.mu.Lock()
			n := c.helpers
			c.mu.Unlock()
			if n == 0 {
				t.Error("no helper")
			}
			time.Sleep(2 * keepFor)
			synctest.Wait()
			if c.helpers != 0 || len(c.idle) != 0 {
				t.Errorf("%d helpers after a pause, %d idle", c.helpers, len(c.idle))
			}
		}
		c.Leave()
	})
}

// Polling ends when the processor was in use by others, and is short for a while then. It ends, too, when no
// processor is idle any more.
func TestCrewCrowded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCrew(2)
		c.procs.Store(2)
		own := int32(0)
		polls := func(at int, away func()) (n int) {
			c.look(own, func() bool {
				if n++; n%looksAtOnce == at {
					away()
				}
				return false
			})
			return n
		}
		const all, short, once = looks*looksAtOnce + 1, fewLooks*looksAtOnce + 1, looksAtOnce + 1
		idle := func() (n int) { return polls(0, func() {}) }
		if n := idle(); n != all {
			t.Errorf("%d looks, want %d", n, all)
		}
		if n := polls(2, func() { time.Sleep(absent) }); n != all {
			t.Errorf("%d looks that take long but not too long, want %d", n, all)
		}
		if n := polls(2, func() { time.Sleep(2 * absent) }); n != once {
			t.Errorf("%d looks when the processor was away, want %d", n, once)
		}
		for i := range crowd {
			if n := idle(); n != short {
				t.Fatalf("%d looks, %d after the processor was away, want %d", n, i, short)
			}
		}
		if n := idle(); n != all {
			t.Errorf("%d looks later on, want %d", n, all)
		}
		if n := polls(2, c.Enter); n != 2*looksAtOnce+1 { // two ranks begin
			t.Errorf("%d looks until all processors are busy, want %d", n, 2*looksAtOnce+1)
		}
		if n := idle(); n != 1 {
			t.Errorf("%d looks with all processors busy, want 1", n)
		}
		own = 1
		if n := idle(); n != short {
			t.Errorf("%d looks with all processors busy, one of them with looking, want %d", n, short)
		}
	})
}

// Other goroutines run while a helper polls.
func TestCrewPollsBeside(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) { // where the clock says that nobody else has the processor
		c := NewCrew(0)
		var ran atomic.Bool
		go ran.Store(true)
		if !c.look(0, ran.Load) {
			t.Error("another goroutine has not run")
		}
	})
}

// A call allocates nothing but what its function needs.
func TestCrewAllocs(t *testing.T) {
	c := NewCrew(2)
	defer c.Close()
	c.Enter()
	defer c.Leave()
	a := &Args{Threads: 2, Crew: c}
	f := func(lo, hi int) {}
	a.Parallel(2, 1, f)
	if n := testing.AllocsPerRun(100, func() { a.Parallel(2, 1, f) }); n > 0 {
		t.Errorf("%v allocations for each call, want none", n)
	}
}

// BenchmarkParallel is a region of some 50 µs, on one thread and on two, which
// share it through a crew or through new goroutines.
func BenchmarkParallel(b *testing.B) {
	x := make([]float32, 1<<15)
	work := func(lo, hi int) {
		for range 4 {
			for i := lo; i < hi; i++ {
				x[i] = x[i]*0.5 + 1
			}
		}
	}
	for _, k := range []struct {
		name    string
		threads int
		crew    *Crew
	}{{"alone", 1, nil}, {"goroutines", 2, nil}, {"crew", 2, NewCrew(2)}} {
		b.Run(k.name, func(b *testing.B) {
			k.crew.Enter()
			defer k.crew.Leave()
			a := &Args{Threads: k.threads, Crew: k.crew}
			for b.Loop() {
				a.Parallel(len(x), 1, work)
			}
		})
	}
}
