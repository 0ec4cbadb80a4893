package ep

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bound is the least that is enough. All count vectors of small
// layers are tried.
func TestRowsIsTheLeastBound(t *testing.T) {
	for experts := 1; experts <= 4; experts++ {
		for capacity := range 6 {
			for align := range 5 {
				l := Layer{Experts: experts, Capacity: capacity, Align: align}
				for pairs := range 13 {
					n := make([]int32, experts)
					if got, want := l.Rows(pairs), worst(l, n, 0, pairs); got != want {
						t.Errorf("%+v: Rows(%d) = %d, want %d", l, pairs, got, want)
					}
				}
			}
		}
	}
}

// worst returns the most rows that any counts n[at:] use, given n[:at].
func worst(l Layer, n []int32, at, pairs int) int {
	if at == len(n) {
		counts, demand := make([]int32, len(n)), make([]int32, len(n))
		Totals(counts, demand, n, l.Capacity)
		return Padded(counts, counts, l.Align)
	}
	most := 0
	for x := range pairs + 1 {
		n[at] = int32(x)
		most = max(most, worst(l, n, at+1, pairs-x))
	}
	return most
}

func TestRows(t *testing.T) {
	for _, c := range []struct {
		layer       Layer
		pairs, want int
	}{
		{Layer{Experts: 8}, 100, 100},
		{Layer{Experts: 8, Capacity: 10}, 100, 80},
		{Layer{Experts: 8, Capacity: 10}, 70, 70},
		{Layer{Experts: 8, Align: 1}, 100, 100},
		{Layer{Experts: 8, Align: 16}, 8, 128},
		{Layer{Experts: 8, Align: 16}, 3, 48},
		{Layer{Experts: 8, Align: 16}, 8 + 15, 128},
		{Layer{Experts: 8, Align: 16}, 8 + 16, 144},
		{Layer{Experts: 8, Align: 16, Capacity: 16}, 1 << 20, 128},
		{Layer{Experts: 8, Align: 16, Capacity: 17}, 1 << 20, 256},
		{Layer{Experts: 8, Align: 16}, 0, 0},
		{Layer{Experts: 8, Align: 16}, -1, 0},
		{Layer{Experts: 2, Align: math.MaxInt32}, math.MaxInt, math.MaxInt},
		{Layer{Experts: 2, Align: math.MaxInt32}, math.MaxInt32, 2 * math.MaxInt32},
		{Layer{Experts: math.MaxInt32, Align: math.MaxInt32, Capacity: math.MaxInt}, math.MaxInt, math.MaxInt},
		{Layer{Experts: 3, Capacity: math.MaxInt}, math.MaxInt, math.MaxInt},
	} {
		got := c.layer.Rows(c.pairs)
		if got != c.want {
			t.Errorf("%+v: Rows(%d) = %d, want %d", c.layer, c.pairs, got, c.want)
		}
	}
}

func TestRankRowsGrows(t *testing.T) {
	for _, l := range []Layer{{8, 0, 0}, {8, 0, 16}, {8, 5, 16}, {8, 40, 16}, {8, 7, 3}, {8, 100, 1}} {
		for experts := range 8 {
			for pairs := range 300 {
				n := l.RankRows(pairs, experts)
				if m := l.RankRows(pairs+1, experts); m < n {
					t.Fatalf("%+v: RankRows(%d, %d) = %d, then %d", l, pairs, experts, n, m)
				}
				if m := l.RankRows(pairs, experts+1); m < n {
					t.Fatalf("%+v: RankRows(%d, %d) = %d, then %d with one more expert", l, pairs, experts, n, m)
				}
			}
		}
	}
}

func TestLayerErrors(t *testing.T) {
	for _, c := range []struct {
		layer     Layer
		tokens, k int
		want      string
	}{
		{Layer{Experts: 0}, 1, 1, "ep: layer: 0 experts, want at least 1"},
		{Layer{Experts: 1 << 31}, 1, 1, "ep: layer: 2147483648 experts, want at most 16777216"},
		{Layer{Experts: 2, Capacity: -1}, 1, 1, "ep: layer: capacity -1, want 0 for no limit or the number of pairs an expert accepts"},
		{Layer{Experts: 2, Align: -16}, 1, 1, "ep: layer: alignment -16, want 0 for none or a number of rows"},
		{Layer{Experts: 2, Align: 1 << 31}, 1, 1, "ep: layer: alignment 2147483648, want at most 2147483647"},
		{Layer{Experts: 2}, -1, 1, "ep: routing of -1 tokens × 1 choices, want at least 0 tokens and 1 choice"},
		{Layer{Experts: 2}, 1, 0, "ep: routing of 1 tokens × 0 choices, want at least 0 tokens and 1 choice"},
		{Layer{Experts: 2}, 1 << 30, 2, "ep: routing of 1073741824 tokens × 2 choices: more than 2147483647 pairs; split the batch"},
		{Layer{Experts: 2}, math.MaxInt, 3, "ep: routing of 9223372036854775807 tokens × 3 choices: more than 2147483647 pairs; split the batch"},
		// There are few rows, but queues do not fit.
		{Layer{Experts: 2, Capacity: 8}, 1 << 30, 2, "ep: routing of 1073741824 tokens × 2 choices: more than 2147483647 pairs; split the batch"},
		{Layer{Experts: 1 << 20, Align: 4096}, 1 << 20, 1, "ep: routing of 1048576 tokens × 1 choices to 1048576 experts aligned to 4096: more than 2147483647 rows; split the batch or align less"},
	} {
		require.EqualError(t, c.layer.Check(c.tokens, c.k), c.want)
	}
	require.NoError(t, Layer{Experts: 2}.Check(math.MaxInt32, 1))
	require.NoError(t, Layer{Experts: 1}.Check(0, 1))
}

func TestFits(t *testing.T) {
	l := Layer{Experts: 4, Capacity: 5}
	require.NoError(t, l.Fits([]int32{5, 0, 5, 1}))
	require.NoError(t, Layer{Experts: 1}.Fits([]int32{math.MaxInt32}))

	err := l.Fits([]int32{6, 9, 9, 1})
	var over *OverflowError
	require.True(t, errors.As(err, &over))
	if *over != (OverflowError{Expert: 1, Need: 9, Capacity: 5}) {
		t.Errorf("got %+v, want expert 1, the lowest of those in highest demand", *over)
	}
	require.EqualError(t, err, "ep: expert 1: 9 pairs, want at most its capacity 5; raise the capacity to 9, or drop the pairs that do not fit")
}
