package ep

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkStep is what one of 8 ranks computes for a layer of 256 experts,
// top-8, with 8192 tokens of its own.
func BenchmarkStep(b *testing.B) {
	const ranks, experts, k, tokens, align = 8, 256, 8, 8192, 128
	r := rand.New(rand.NewPCG(1, 2))
	idx := make([]int32, tokens*k)
	for i := range idx {
		idx[i] = int32(r.IntN(experts))
	}
	table, kept := make([]int32, ranks*experts), make([]int32, ranks*experts)
	for s := range ranks {
		if err := Count(table[s*experts:(s+1)*experts], idx, k); err != nil {
			b.Fatal(err)
		}
	}
	group := Group{Experts: EqualSplit(experts, ranks), Sources: []int{0, 1, 2, 3, 4, 5, 6, 7}}
	n, next := make([]int32, experts), make([]int32, experts)
	routing, order := make([]int32, 2*len(idx)), make([]int32, len(idx))
	start, zone := make([]int32, experts/ranks), make([]int32, experts/ranks)
	arrival := make([]int32, ranks*len(idx))
	b.ReportAllocs()
	for b.Loop() {
		clear(n)
		if err := Count(n, idx, k); err != nil {
			b.Fatal(err)
		}
		Before(next, table, 3)
		Assign(routing, nil, next, idx, 4096)
		Kept(kept, table, experts, 4096)
		SendOrder(order, next, routing, 0)
		group.Zones(start, zone, kept, 3, align)
		group.RecvOrder(arrival, start, kept, 3)
	}
}
