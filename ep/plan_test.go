package ep

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every kept pair has exactly one row, every row at most one pair; rows are
// in order of (expert, token, choice).
func TestPlanIsAPermutation(t *testing.T) {
	for seed := range uint64(1000) {
		b := random(rand.New(rand.NewPCG(seed, 4)))
		p, err := NewPlan(b.layer, b.idx, b.k)
		require.NoError(t, err)
		require.LessOrEqual(t, p.Used, len(p.Pair))
		kept := 0
		for i, row := range p.Row {
			if (row < 0) != (b.idx[i] < 0 || p.Dropped[i]) {
				t.Fatalf("seed %d: pair %d of expert %d, dropped %v, has row %d", seed, i, b.idx[i], p.Dropped[i], row)
			}
			if row < 0 {
				continue
			}
			kept++
			if p.Pair[row] != int32(i) {
				t.Fatalf("seed %d: row %d of pair %d holds pair %d", seed, row, i, p.Pair[row])
			}
			e := b.idx[i]
			if at := row - p.Start[e]; at < 0 || at >= p.Counts[e] {
				t.Fatalf("seed %d: row %d outside of the zone of expert %d", seed, row, e)
			}
		}
		lastExpert, lastPair, rows, total := int32(-1), int32(-1), 0, 0
		for _, i := range p.Pair {
			if i < 0 {
				continue
			}
			rows++
			if e := b.idx[i]; e < lastExpert || e == lastExpert && i <= lastPair {
				t.Fatalf("seed %d: pair %d of expert %d after pair %d of expert %d", seed, i, e, lastPair, lastExpert)
			}
			lastExpert, lastPair = b.idx[i], i
		}
		for e := range p.Counts {
			total += int(p.Counts[e])
		}
		if kept != rows || kept != total {
			t.Fatalf("seed %d: %d pairs have rows, %d rows have pairs, counts add up to %d", seed, kept, rows, total)
		}
	}
}

// A batch that is assigned in pieces is assigned like the whole batch.
func TestAssignInPieces(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		b := random(r)
		p, err := NewPlan(b.layer, b.idx, b.k)
		require.NoError(t, err)
		next, routing := make([]int32, b.layer.Experts), make([]int32, 2*len(b.idx))
		for i := 0; i < len(b.idx); {
			n := 1 + r.IntN(len(b.idx)-i)
			Assign(routing[2*i:], nil, next, b.idx[i:i+n], b.layer.Capacity)
			i += n
		}
		equal(t, "routing", routing, p.Routing)
	}
}

func TestPlanErrors(t *testing.T) {
	_, err := NewPlan(Layer{Experts: 2}, make([]int32, 3), 2)
	require.EqualError(t, err, "ep: plan: 3 indices for 2 choices per token, want a multiple of at least 1 choice")
	_, err = NewPlan(Layer{Experts: 2}, nil, 0)
	require.EqualError(t, err, "ep: plan: 0 indices for 0 choices per token, want a multiple of at least 1 choice")
	_, err = NewPlan(Layer{}, nil, 1)
	require.EqualError(t, err, "ep: layer: 0 experts, want at least 1")
	_, err = NewPlan(Layer{Experts: 2}, []int32{0, 1, 2, 0}, 2)
	var index *IndexError
	require.True(t, errors.As(err, &index), "%v", err)
	require.Equal(t, IndexError{Token: 1, Choice: 0, Index: 2, Experts: 2}, *index)
}

func ExampleNewPlan() {
	layer := Layer{Experts: 3, Capacity: 2, Align: 2}
	// Four tokens, two choices each.
	plan, err := NewPlan(layer, []int32{2, 0, 2, -1, 2, 1, 1, 0}, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("demand ", plan.Demand)
	fmt.Println("counts ", plan.Counts)
	fmt.Println("starts ", plan.Start)
	fmt.Println("pair -> row", plan.Row)
	fmt.Println("row -> pair", plan.Pair)
	fmt.Println(layer.Fits(plan.Demand))
	fmt.Println(Measure(plan.Demand, plan.Counts))
	// Output:
	// demand  [2 2 3]
	// counts  [2 2 2]
	// starts  [0 2 4]
	// pair -> row [4 0 5 -1 -1 2 3 1]
	// row -> pair [1 7 5 6 0 2]
	// ep: expert 2: 3 pairs, want at most its capacity 2; raise the capacity to 3, or drop the pairs that do not fit
	// 7 pairs to 3 experts, imbalance 1.29, hottest 2 with 42.9%, 1 dropped (14.3%)
}
