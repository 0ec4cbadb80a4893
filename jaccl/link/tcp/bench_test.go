package tcp

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomoe/gomoe/jaccl/link"
)

// BenchmarkProcesses measures sums and all-to-alls of two to four ranks in processes
// of their own. bytes is the size of a sum's vector, or of what a rank sends in an
// all-to-all, with its own part. min-us and median-us are those of batches.
func BenchmarkProcesses(b *testing.B) {
	for _, n := range []int{2, 4} {
		for _, op := range []string{"all_to_all", "all_sum"} {
			for _, bytes := range []int{4 << 10, 64 << 10, 1 << 20, 16 << 20} {
				b.Run(fmt.Sprintf("%s/ranks=%d/bytes=%d", op, n, bytes), func(b *testing.B) {
					j := processes(b, n)
					work := operation(j.Communicator, op, bytes)
					batch := max(8, min(b.N, (2<<20)/bytes))
					var times []float64
					j.say(b, op, bytes, b.N)
					b.ResetTimer()
					for done := 0; done < b.N; {
						k := min(batch, b.N-done)
						start := time.Now()
						for range k {
							if err := work(); err != nil {
								b.Fatal(err)
							}
						}
						times = append(times, float64(time.Since(start).Microseconds())/float64(k))
						done += k
					}
					b.StopTimer()
					slices.Sort(times)
					b.ReportMetric(times[0], "min-us")
					b.ReportMetric(times[len(times)/2], "median-us")
				})
			}
		}
	}
}

// BenchmarkExchange is an exchange of heads alone, by two goroutines.
func BenchmarkExchange(b *testing.B) {
	for name, move := range movers() {
		b.Run(name, func(b *testing.B) {
			ls := links(b, 2, move)
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for _, l := range ls {
				wg.Go(func() {
					x := &link.Exchange{Peers: others(l), Head: make([]byte, 100)}
					for range b.N {
						if err := l.Exchange(context.Background(), x); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
