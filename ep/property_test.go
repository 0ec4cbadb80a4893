package ep

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// random draws a problem: uneven ranks, skewed experts, unused choices.
func random(r *rand.Rand) batch {
	size := 1 + r.IntN(4)
	ranks := size * (1 + r.IntN(3))
	b := batch{
		layer:  Layer{Experts: 1 + r.IntN(4*size), Align: []int{0, 1, 2, 3, 4, 16}[r.IntN(6)]},
		k:      1 + r.IntN(4),
		tokens: make([]int, ranks),
		groups: mesh(ranks, size, r.IntN(2) == 0),
	}
	if r.IntN(2) == 0 {
		b.layer.Capacity = 1 + r.IntN(12)
	}
	if r.IntN(2) == 0 {
		b.split = make(Split, size+1)
		for i := range b.split[1:size] {
			b.split[i+1] = r.IntN(b.layer.Experts + 1)
		}
		b.split[size] = b.layer.Experts
		slices.Sort(b.split)
	}
	even, most := r.IntN(2) == 0, r.IntN(9)
	hot, skew, none := r.IntN(b.layer.Experts), r.Float64(), r.Float64()*r.Float64()
	for n := range b.tokens {
		b.tokens[n] = most
		if !even {
			b.tokens[n] = r.IntN(most + 1)
		}
		for range b.tokens[n] * b.k {
			e := int32(r.IntN(b.layer.Experts))
			if r.Float64() < skew*skew {
				e = int32(hot)
			}
			if r.Float64() < none {
				e = -1
			}
			b.idx = append(b.idx, e)
		}
	}
	return b
}

func TestRanksAgreeWithReference(t *testing.T) {
	for seed := range uint64(3000) {
		b := random(rand.New(rand.NewPCG(seed, 1)))
		b.simulate(t).checkAgainst(t, b)
		if t.Failed() {
			t.Fatalf("seed %d: %+v", seed, b)
		}
	}
}

// However the batch is split, each pair has the same expert and place in its queue, and
// the same pairs are dropped. The ranks of a group together hold exactly one rank's
// rows, zone by zone.
func TestMeshDoesNotMatter(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		b := random(r)
		b.layer.Experts, b.split = 12, nil
		for i := range b.idx {
			b.idx[i] = int32(r.IntN(13)) - 1
		}
		plan, err := NewPlan(b.layer, b.idx, b.k)
		require.NoError(t, err)
		for _, ranks := range []int{1, 2, 3, 4, 6, 12} {
			for size := 1; size <= ranks; size++ {
				if ranks%size != 0 {
					continue
				}
				split := b
				split.tokens = make([]int, ranks)
				for range plan.Tokens {
					split.tokens[r.IntN(ranks)]++
				}
				split.groups = mesh(ranks, size, seed%2 == 0)
				res := split.simulate(t)
				equal(t, "routing", res.routing, plan.Routing)
				equal(t, "dropped", res.dropped, plan.Dropped)
				equal(t, "demand", res.demand, plan.Demand)
				equal(t, "counts", res.counts, plan.Counts)
				checkSameRows(t, res, split, plan)
				if t.Failed() {
					t.Fatalf("seed %d: %d ranks in groups of %d: %+v", seed, ranks, size, split)
				}
			}
		}
	}
}

// checkSameRows compares the multiset of pairs in the zones of every expert
// over all groups, and the order where there is one group.
func checkSameRows(t *testing.T, res result, b batch, plan *Plan) {
	t.Helper()
	for e := range b.layer.Experts {
		want := plan.Pair[plan.Start[e] : plan.Start[e]+plan.Counts[e]]
		var got []int32
		for g := range b.groups {
			m := b.owners()[e]
			key := [2]int{g, m}
			x := e - b.experts()[m]
			start := res.starts[key][x]
			zone := res.rows[key][start : start+res.zoneRows[key][x]]
			if !slices.IsSorted(zone) {
				t.Errorf("expert %d, group %d: rows %v not in token order", e, g, zone)
			}
			got = append(got, zone...)
		}
		if len(b.groups) > 1 {
			slices.Sort(got)
		}
		equal(t, fmt.Sprintf("rows of expert %d", e), got, want)
	}
}

func TestNothingDropsWithEnoughCapacity(t *testing.T) {
	for seed := range uint64(500) {
		b := random(rand.New(rand.NewPCG(seed, 3)))
		b.layer.Capacity = 0
		free := b.simulate(t)
		most := int(slices.Max(free.demand))
		if most == 0 {
			continue
		}
		b.layer.Capacity = most
		res := b.simulate(t)
		equal(t, "routing", res.routing, free.routing)
		require.NotContains(t, res.dropped, true, "seed %d", seed)
		require.NoError(t, b.layer.Fits(res.demand))

		b.layer.Capacity = most - 1
		if most == 1 {
			continue
		}
		res = b.simulate(t)
		require.Contains(t, res.dropped, true, "seed %d", seed)
		require.Error(t, b.layer.Fits(res.demand))
	}
}

func TestCorners(t *testing.T) {
	const none = -1
	for _, c := range []struct {
		name string
		b    batch
	}{
		{"no tokens", batch{Layer{4, 0, 16}, 2, []int{0, 0}, mesh(2, 2, false), nil, nil}},
		{"no tokens on rank 0", batch{Layer{4, 3, 2}, 2, []int{0, 3}, mesh(2, 2, false), []int32{0, 1, 0, 3, 0, 2}, nil}},
		{"no tokens on the last rank", batch{Layer{4, 1, 0}, 1, []int{3, 0}, mesh(2, 2, false), []int32{2, 2, 0}, nil}},
		{"all choices unused", batch{Layer{4, 2, 8}, 2, []int{1, 1}, mesh(2, 2, false), []int32{none, none, none, none}, nil}},
		{"everything to one expert", batch{Layer{6, 0, 4}, 2, []int{1, 1, 1}, mesh(3, 3, false), []int32{5, 5, 5, 5, 5, 5}, nil}},
		{"everything to one expert, most dropped", batch{Layer{6, 2, 4}, 2, []int{1, 1, 1}, mesh(3, 3, false), []int32{5, 5, 5, 5, 5, 5}, nil}},
		{"a token chooses an expert twice, the second drops", batch{Layer{2, 1, 0}, 2, []int{1, 1}, mesh(2, 1, false), []int32{1, 1, none, 0}, nil}},
		{"one expert", batch{Layer{1, 3, 0}, 1, []int{2, 2}, mesh(2, 1, false), []int32{0, none, 0, 0}, nil}},
		{"three experts on four ranks", batch{Layer{3, 2, 2}, 2, []int{1, 1, 0, 1}, mesh(4, 4, false), []int32{2, 0, 2, 1, 2, 2}, nil}},
		{"experts on the last rank alone", batch{Layer{3, 0, 0}, 1, []int{1, 1, 0}, mesh(3, 3, false), []int32{2, 0}, Split{0, 0, 0, 3}}},
		{"groups of three", batch{Layer{3, 0, 2}, 1, []int{2, 1, 0, 1, 1, 1}, mesh(6, 3, false), []int32{2, 0, 1, 0, none, 2}, nil}},
		{"groups of three, strided", batch{Layer{3, 1, 2}, 1, []int{2, 1, 0, 1, 1, 1}, mesh(6, 3, true), []int32{2, 0, 1, 0, none, 2}, nil}},
		{"unused tokens beside used ones", batch{Layer{2, 0, 0}, 2, []int{2, 1}, mesh(2, 2, false), []int32{none, none, 1, none, none, 0}, nil}},
	} {
		t.Run(c.name, func(t *testing.T) { c.b.simulate(t).checkAgainst(t, c.b) })
	}
}

// FuzzRouting makes a problem of the fuzzer's bytes and compares with the reference.
func FuzzRouting(f *testing.F) {
	f.Add([]byte{2, 2, 1, 2, 0, 4, 0, 1, 2, 3, 255, 0})
	f.Add([]byte{3, 1, 2, 1, 5, 16, 9, 9, 9, 9, 9, 9, 9})
	f.Add([]byte{1, 1, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < 6 {
			return
		}
		size, groups := 1+int(in[0]%4), 1+int(in[1]%3)
		b := batch{
			layer:  Layer{Experts: 1 + int(in[2]%16), Capacity: int(in[4] % 9), Align: int(in[5] % 20)},
			k:      1 + int(in[3]%3),
			tokens: make([]int, size*groups),
			groups: mesh(size*groups, size, in[0] >= 128),
		}
		for in = in[6:]; len(in) >= b.k; in = in[b.k:] {
			for _, x := range in[:b.k] {
				b.idx = append(b.idx, int32(int(x)%(b.layer.Experts+1))-1)
			}
			b.tokens[int(in[0]>>4)%len(b.tokens)]++
		}
		b.simulate(t).checkAgainst(t, b)
	})
}
