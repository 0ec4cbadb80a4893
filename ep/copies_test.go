package ep

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBalanceCopies(t *testing.T) {
	for _, c := range []struct {
		name  string
		loads []float64
		held  Split
		want  Copies
	}{
		// A copy has the load 20, 10, 15 or 10, and the ranks 20+15, 20+10, 20+10 and 15.
		{"hot experts", []float64{60, 10, 30, 10}, EqualSplit(7, 4), Copies{0, 2, 0, 1, 0, 3, 2}},
		{"as many copies as experts", []float64{1, 5, 4, 2}, EqualSplit(4, 2), Copies{0, 1, 2, 3}},
		{"one expert has all the load", []float64{0, 9, 0}, EqualSplit(6, 3), Copies{1, 1, 0, 1, 1, 2}},
		{"equal loads", []float64{1, 1, 1, 1}, EqualSplit(6, 3), Copies{1, 2, 1, 3, 0, 0}},
		{"no loads", []float64{0, 0, 0, 0}, EqualSplit(6, 3), Copies{0, 1, 0, 2, 0, 3}},
		{"ranks that hold different numbers", []float64{8, 4, 2}, Split{0, 3, 3, 4}, Copies{0, 1, 2, 0}},
		{"one rank", []float64{1, 3}, EqualSplit(3, 1), Copies{0, 1, 1}},
	} {
		got, err := BalanceCopies(c.loads, c.held)
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, got, c.name)
	}
}

func TestBalanceCopiesErrors(t *testing.T) {
	for _, c := range []struct {
		loads []float64
		held  Split
		want  string
	}{
		{nil, EqualSplit(2, 2), "ep: copies: loads of no experts, want one for each expert"},
		{[]float64{1, 2, 3}, EqualSplit(2, 2), "ep: copies: 2 copies of 3 experts, want at least one of each"},
		{[]float64{1, -2}, EqualSplit(2, 2), "ep: copies: load -2 of expert 1, want a finite number of at least 0"},
		{[]float64{1, math.NaN()}, EqualSplit(2, 2), "ep: copies: load NaN of expert 1, want a finite number of at least 0"},
		{[]float64{math.Inf(1), 1}, EqualSplit(2, 2), "ep: copies: load +Inf of expert 0, want a finite number of at least 0"},
		{[]float64{1}, Split{0, 3, 2}, "ep: split [0 3 2]: part 1 ends before it begins; want ascending numbers"},
	} {
		_, err := BalanceCopies(c.loads, c.held)
		require.EqualError(t, err, c.want)
	}
}

// Random loads: each expert has a copy, no expert could give a copy to another and lower the
// highest load of a copy, and a rank has its copies in the order of their experts.
func TestBalanceCopiesRandom(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		loads := make([]float64, 1+r.IntN(12))
		for e := range loads {
			loads[e] = float64(r.IntN(5) * r.IntN(30))
		}
		held := EqualSplit(len(loads)+r.IntN(10), 1+r.IntN(5))
		copies, err := BalanceCopies(loads, held)
		require.NoError(t, err)
		n := make([]float64, len(loads))
		for _, e := range copies {
			n[e]++
		}
		highest := 0.0
		for e := range n {
			require.Positive(t, n[e])
			highest = max(highest, loads[e]/n[e])
		}
		for e := range n {
			if n[e] > 1 { // a copy that expert e has beyond the first was needed
				require.GreaterOrEqual(t, loads[e]/(n[e]-1), highest, "loads %v copies %v", loads, copies)
			}
		}
		for p := range held.Parts() {
			lo, hi := held.Part(p)
			require.True(t, slices.IsSorted(copies[lo:hi]))
		}
	}
}

func TestCopiesIndex(t *testing.T) {
	first, order := make([]int32, 4), make([]int32, 5)
	require.NoError(t, Copies{2, 0, 2, 1, 2}.Index(first, order))
	require.Equal(t, []int32{0, 1, 2, 5}, first)
	require.Equal(t, []int32{1, 3, 0, 2, 4}, order)
	require.EqualError(t, Copies{2, 0, 3, 1, 2}.Index(first, order), "ep: copies: copy 2 is of expert 3, want 0 to 2")
	require.EqualError(t, Copies{2, 0, -1, 1, 2}.Index(first, order), "ep: copies: copy 2 is of expert -1, want 0 to 2")
	require.EqualError(t, Copies{2, 0, 2, 0, 2}.Index(first, order), "ep: copies: expert 1 has none of the 5 copies, want at least one of each of 3 experts")
}

// What sources compute from their own tokens, from the choices of all, and from the table agree
// with a loop over the whole batch.
func TestCopyIndex(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		experts, k := 1+r.IntN(5), 1+r.IntN(3)
		copies := make(Copies, experts+r.IntN(6))
		for c := range copies {
			copies[c] = int32(c % experts)
			if c >= experts {
				copies[c] = int32(r.IntN(experts))
			}
		}
		r.Shuffle(len(copies), func(i, j int) { copies[i], copies[j] = copies[j], copies[i] })
		x := CopyIndex{make([]int32, experts+1), make([]int32, len(copies))}
		require.NoError(t, copies.Index(x.First, x.Order))

		tokens := EqualSplit(r.IntN(20), 1+r.IntN(4))
		chosen := make([]int32, tokens.Len()*k)
		for i := range chosen {
			chosen[i] = int32(r.IntN(experts+1) - 1)
		}
		want, places := make([]int32, len(chosen)), make([]int32, len(chosen))
		queue, taken := make([]int, experts), make([]int32, len(copies))
		for i, e := range chosen {
			want[i], places[i] = -1, -1
			if e < 0 {
				continue
			}
			var own []int32
			for c, of := range copies {
				if of == e {
					own = append(own, int32(c))
				}
			}
			want[i] = own[queue[e]%len(own)]
			queue[e]++
			places[i] = taken[want[i]]
			taken[want[i]]++
		}
		got := make([]int32, len(chosen))
		x.Choices(got, make([]int32, experts), chosen)
		require.Equal(t, want, got)

		kept := make([]int32, tokens.Parts()*experts)
		for s := range tokens.Parts() {
			lo, hi := tokens.Part(s)
			require.NoError(t, Count(kept[s*experts:(s+1)*experts], chosen[lo*k:hi*k], k))
		}
		table, next := make([]int32, tokens.Parts()*len(copies)), make([]int32, experts)
		x.Table(table, kept)
		for s := range tokens.Parts() {
			lo, hi := tokens.Part(s)
			routing, spread, n := []int32{}, make([]int32, 2*(hi-lo)*k), make([]int32, len(copies))
			for _, e := range chosen[lo*k : hi*k] {
				routing = append(routing, e, 7)
			}
			Before(next, kept, s)
			x.Routing(spread, next, routing)
			for i := range spread[:len(spread)/2] {
				require.Equal(t, want[lo*k+i], spread[2*i])
				require.Equal(t, places[lo*k+i], spread[2*i+1])
				if c := spread[2*i]; c >= 0 {
					n[c]++
				}
			}
			require.Equal(t, n, table[s*len(copies):(s+1)*len(copies)], fmt.Sprint("seed ", seed))
		}
	}
}
