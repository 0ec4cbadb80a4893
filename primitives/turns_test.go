package primitives

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Addends are added in order, whichever worker computes them, and each is computed once.
func TestTurns(t *testing.T) {
	for _, take := range []int{1, 2, 6} {
		for workers := 1; workers <= 5; workers++ {
			const sums, each = 7, 6
			turns := new(turns)
			turns.start(sums, each, make([]int, sums))
			turns.take = take
			added := make([][]int, sums)
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					turns.work(func(sum, first, last int) {
						for i := first; i < last; i++ {
							if !turns.wait(sum, i) {
								t.Error("told that a worker has failed, and none has")
							}
							added[sum] = append(added[sum], i)
							turns.done(sum)
						}
					})
				})
			}
			wg.Wait()
			for sum, got := range added {
				if want := []int{0, 1, 2, 3, 4, 5}; !slices.Equal(got, want) {
					t.Fatalf("%d workers that take %d: sum %d is of %v, want %v", workers, take, sum, got, want)
				}
			}
		}
	}
}

// If a worker panics, no other worker waits for it.
func TestTurnsPanic(t *testing.T) {
	turns := new(turns)
	turns.start(1, 2, make([]int, 1))
	waiting := make(chan struct{})
	told := make(chan bool)
	first := make(chan struct{})
	go func() {
		defer func() { _ = recover() }()
		turns.work(func(int, int, int) {
			close(first)
			<-waiting
			panic("here")
		})
	}()
	<-first
	go turns.work(func(sum, first, _ int) {
		close(waiting)
		told <- turns.wait(sum, first)
	})
	require.False(t, <-told)
}
