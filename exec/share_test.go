package exec

import (
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// Every index is visited once, in at most Threads pieces of at least the grain.
func TestParallel(t *testing.T) {
	for _, n := range []int{0, 1, 2, 7, 64, 1000} {
		for _, threads := range []int{-1, 0, 1, 2, 3, 16} {
			for _, grain := range []int{-1, 0, 1, 5, 64, 5000} {
				a := &Args{Threads: threads}
				seen := make([]int32, n)
				var pieces, small atomic.Int32
				a.Parallel(n, grain, func(lo, hi int) {
					pieces.Add(1)
					if hi-lo < grain && hi-lo < n {
						small.Add(1)
					}
					for i := lo; i < hi; i++ {
						atomic.AddInt32(&seen[i], 1)
					}
				})
				if slices.ContainsFunc(seen, func(c int32) bool { return c != 1 }) {
					t.Errorf("n=%d threads=%d grain=%d: visited %v", n, threads, grain, seen)
				}
				if p := int(pieces.Load()); p > max(threads, 1) || small.Load() > 0 {
					t.Errorf("n=%d threads=%d grain=%d: %d pieces, %d below the grain", n, threads, grain, p, small.Load())
				}
			}
		}
	}
}

// A panic of any piece reaches the caller, when no piece runs any more.
func TestParallelPanic(t *testing.T) {
	for bad := range 4 {
		var running atomic.Int32
		func() {
			defer func() {
				err, ok := recover().(error)
				if !ok || !strings.HasPrefix(err.Error(), "piece ") || !strings.Contains(err.Error(), "share_test.go:") {
					t.Errorf("recovered %v, want the lowest piece's panic with its stack", err)
				}
				if n := running.Load(); n != 0 {
					t.Errorf("%d pieces still run", n)
				}
			}()
			(&Args{Threads: 4}).Parallel(4, 1, func(lo, hi int) {
				running.Add(1)
				defer running.Add(-1)
				if lo == bad {
					panic("piece " + string(rune('0'+lo)))
				}
				for range 100 {
					runtime.Gosched()
				}
			})
			t.Error("Parallel returns")
		}()
	}
}
