package work

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Addends are added in order, whichever worker computes them, and each is computed once.
func TestOrderedSums(t *testing.T) {
	for _, take := range []int{1, 2, 6} {
		for workers := 1; workers <= 5; workers++ {
			const sums, each = 7, 6
			order := new(OrderedSums)
			order.Start(sums, each, take, make([]int, sums))
			added := make([][]int, sums)
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					order.Work(func(sum, first, last int) {
						for i := first; i < last; i++ {
							if !order.Wait(sum, i) {
								t.Error("told that a worker has failed, and none has")
							}
							added[sum] = append(added[sum], i)
							order.Done(sum)
						}
					})
				})
			}
			wg.Wait()
			for sum, got := range added {
				if want := []int{0, 1, 2, 3, 4, 5}; !slices.Equal(got, want) {
					t.Fatalf("%d workers that claim %d: sum %d is of %v, want %v", workers, take, sum, got, want)
				}
			}
		}
	}
}

// If a worker panics, no other worker waits for it.
func TestOrderedSumsPanic(t *testing.T) {
	order := new(OrderedSums)
	order.Start(1, 2, 1, make([]int, 1))
	waiting := make(chan struct{})
	told := make(chan bool)
	first := make(chan struct{})
	go func() {
		defer func() { _ = recover() }()
		order.Work(func(int, int, int) {
			close(first)
			<-waiting
			panic("here")
		})
	}()
	<-first
	go order.Work(func(sum, first, _ int) {
		close(waiting)
		told <- order.Wait(sum, first)
	})
	require.False(t, <-told)
}
