package work

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gomoe/gomoe/exec"
)

// Every piece is done once.
func TestSteal(t *testing.T) {
	for _, threads := range []int{1, 2, 5} {
		for _, n := range []int{0, 1, 7, 100, 1001} {
			for _, grain := range []int{0, 1, 30, 5000} {
				for _, unit := range []int{1, 8} {
					var mu sync.Mutex
					times := make([]int, n)
					Steal(&exec.Args{Threads: threads}, n, grain, unit, func(_, lo, hi int) {
						mu.Lock()
						defer mu.Unlock()
						for i := lo; i < hi; i++ {
							times[i]++
						}
						if lo%unit != 0 || hi%unit != 0 && hi != n {
							t.Errorf("%d threads, 0..%d, grain %d: cut at %d and %d, want multiples of %d", threads, n, grain, lo, hi, unit)
						}
					})
					if i := slices.IndexFunc(times, func(k int) bool { return k != 1 }); i >= 0 {
						t.Errorf("%d threads, 0..%d, grain %d: %d is done %d times", threads, n, grain, i, times[i])
					}
				}
			}
		}
	}
}

// A thread steals the pieces of a stalled one.
func TestStealFromStalledThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if all threads wait
		var mu sync.Mutex
		const n = 1000
		done, all := 0, make(chan struct{})
		Steal(&exec.Args{Threads: 2}, n, 1, 1, func(_, lo, hi int) {
			mu.Lock()
			if done += hi - lo; done == n {
				close(all)
			}
			mu.Unlock()
			if lo == 0 {
				<-all
			}
		})
	})
}
