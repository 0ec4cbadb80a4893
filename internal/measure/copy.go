package measure

import (
	"sync"
	"time"
)

// Copy measures an upper bound for exchanges among ranks of one process: one goroutine
// per rank copies as many bytes as an all_to_all moves. The transport of its rows is
// "copy".
func Copy(ranks int, o Options, report func(Row)) error {
	if err := o.Check(); err != nil {
		return err
	}
	src, dst := make([][]byte, ranks), make([][]byte, ranks)
	for i := range src {
		src[i], dst[i] = make([]byte, o.Max), make([]byte, o.Max)
		fill(src[i])
		fill(dst[i])
	}
	for size := o.Min; size <= o.Max; size *= int64(o.Factor) {
		row := Row{Transport: "copy", Op: "all_to_all", Ranks: ranks, Bytes: size}
		var calls int
		times := make([]float64, 0, o.Batches)
		for b := -1; b < o.Batches; b++ { // the first batch determines the number of calls per batch
			n := max(calls, 4)
			began := time.Now()
			var wg sync.WaitGroup
			for i := range src {
				wg.Go(func() {
					for range n {
						copy(dst[i][:size], src[i][:size])
					}
				})
			}
			wg.Wait()
			each := time.Since(began).Seconds() / float64(n)
			if b < 0 {
				calls = int(min(max(o.Batch.Seconds()/each, 1), 100000))
				continue
			}
			times = append(times, each)
			row.Calls += n
		}
		row.settle(times)
		report(row)
	}
	return nil
}
