package ep

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCountErrors(t *testing.T) {
	for _, c := range []struct {
		idx  []int32
		want IndexError
	}{
		{[]int32{0, 1, 2, 3, 4, 0}, IndexError{2, 0, 4, 4}},
		{[]int32{0, 1, 2, -2, 4, 0}, IndexError{1, 1, -2, 4}},
		{[]int32{math.MinInt32, 1}, IndexError{0, 0, math.MinInt32, 4}},
		{[]int32{-1, math.MaxInt32}, IndexError{0, 1, math.MaxInt32, 4}},
	} {
		err := Count(make([]int32, 4), c.idx, 2)
		var got *IndexError
		require.True(t, errors.As(err, &got), "%v: %v", c.idx, err)
		if *got != c.want {
			t.Errorf("%v: %+v, want %+v", c.idx, *got, c.want)
		}
	}
	require.EqualError(t, Count(make([]int32, 4), []int32{0, 0, 0, 7}, 2), "ep: token 1, choice 1: expert 7, want 0 to 3, or -1 for none")
}

func TestCountAdds(t *testing.T) {
	n := []int32{1, 0, 5}
	require.NoError(t, Count(n, []int32{0, 0, -1, 2}, 2))
	equal(t, "n", n, []int32{3, 0, 6})
}

func TestKept(t *testing.T) {
	table := []int32{
		3, 0, 1,
		2, 4, 0,
		9, 1, 0,
	}
	want := []int32{
		3, 0, 1,
		1, 4, 0,
		0, 0, 0,
	}
	kept := make([]int32, len(table))
	Kept(kept, table, 3, 4)
	equal(t, "kept", kept, want)
	Kept(kept, table, 3, 0)
	equal(t, "kept without capacity", kept, table)
	Kept(table, table, 3, 4)
	equal(t, "kept in place", table, want)
}

func TestPadded(t *testing.T) {
	padded := make([]int32, 4)
	if sum := Padded(padded, []int32{0, 1, 16, 17}, 16); sum != 64 {
		t.Errorf("sum %d, want 64", sum)
	}
	equal(t, "padded", padded, []int32{0, 16, 16, 32})
	for _, align := range []int{0, 1} {
		if sum := Padded(padded, []int32{0, 1, 16, 17}, align); sum != 34 {
			t.Errorf("align %d: sum %d, want 34", align, sum)
		}
	}
}

func TestGroupErrors(t *testing.T) {
	for _, c := range []struct {
		group Group
		want  string
	}{
		{Group{Split{0, 4}, nil}, "ep: group of no ranks, want at least 1"},
		{Group{Split{0}, []int{0}}, "ep: split [0], want 0 and then the end of each part"},
		{Group{Split{1, 4}, []int{0}}, "ep: split [1 4], want 0 and then the end of each part"},
		{Group{Split{0, 3, 2, 4}, []int{0}}, "ep: split [0 3 2 4]: part 1 ends before it begins; want ascending numbers"},
		{Group{Split{0, 2, 4}, []int{0, 1, 2}}, "ep: group [0 1 2]: 2 ranks with experts, want one for each rank with tokens, or tokens that all ranks have"},
		{Group{Split{0, 0}, []int{0}}, "ep: group [0] without experts, want at least 1"},
		{Group{Split{0, 2, 4}, []int{0, 4}}, "ep: group [0 4]: rank 4, want 0 to 3"},
		{Group{Split{0, 2, 4}, []int{-1, 2}}, "ep: group [-1 2]: rank -1, want 0 to 3"},
		{Group{Split{0, 2, 4}, []int{2, 1}}, "ep: group [2 1]: rank 1 after 2, want ascending ranks"},
		{Group{Split{0, 2, 4}, []int{1, 1}}, "ep: group [1 1]: rank 1 after 1, want ascending ranks"},
	} {
		require.EqualError(t, c.group.Validate(4), c.want)
	}
	require.NoError(t, Group{Split{0, 0, 4}, []int{1, 3}}.Validate(4))
	require.NoError(t, Group{EqualSplit(3, 4), []int{2}}.Validate(4))
}

// The functions of every step allocate nothing.
func TestNoAllocations(t *testing.T) {
	const experts, k, align, capacity = 8, 2, 4, 3
	idx := []int32{0, 1, 7, 7, 3, -1, 3, 3, 0, 3}
	table, kept := make([]int32, 2*experts), make([]int32, 2*experts)
	next, counts, demand := make([]int32, experts), make([]int32, experts), make([]int32, experts)
	routing, dropped, order := make([]int32, 2*len(idx)), make([]bool, len(idx)), make([]int32, 2*len(idx))
	start, n, rows := make([]int32, 4), make([]int32, 4), make([]int32, 2)
	inverse := make([]int32, 64)
	group := Group{Experts: EqualSplit(experts, 2), Sources: []int{0, 1}}
	allocs := testing.AllocsPerRun(100, func() {
		clear(table)
		if Count(table[:experts], idx, k) != nil || Count(table[experts:], idx, k) != nil {
			panic("count")
		}
		Before(next, table, 1)
		Assign(routing, dropped, next, idx, capacity)
		Totals(counts, demand, table, capacity)
		Overflow(demand, capacity)
		Padded(counts, counts, align)
		Kept(kept, table, experts, capacity)
		SendOrder(order, next, routing, 0)
		group.SendCounts(rows, kept, 0)
		group.RecvCounts(rows, kept, 0)
		group.Zones(start, n, kept, 0, align)
		j := group.RecvOrder(order, start, kept, 0)
		Inverse(inverse, order[:j])
	})
	if allocs != 0 {
		t.Errorf("%v allocations per step, want 0", allocs)
	}
}
