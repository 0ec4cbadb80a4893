package lowering

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestProfile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for n := 1; n < 40; n++ {
		change, want := make([]int64, n), make([]int64, n)
		var sum int64
		for i := range change {
			change[i] = r.Int64N(100)
			sum += change[i]
			want[i] = sum
		}
		p := newProfile(change)
		for range 200 {
			from, to := r.IntN(n+1), r.IntN(n+1)
			if r.IntN(2) == 0 {
				bytes := r.Int64N(200) - 100
				p.add(from, to, bytes)
				for i := from; i < to; i++ {
					want[i] += bytes
				}
				continue
			}
			if from >= to {
				continue
			}
			if got, want := p.most(from, to), slices.Max(want[from:to]); got != want {
				t.Fatalf("most of [%d, %d) of %d is %d, want %d", from, to, n, got, want)
			}
		}
	}
}
