package main

import (
	"math"
	"slices"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{
		{[]float64{3}, 3},
		{[]float64{3, 1}, 2},
		{[]float64{9, 1, 4}, 4},
		{[]float64{9, 1, 4, 2}, 3},
	} {
		before := slices.Clone(c.x)
		if got := median(c.x); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.x, got, c.want)
		}
		if !slices.Equal(c.x, before) {
			t.Errorf("median sorted its argument %v to %v", before, c.x)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing is %v, want NaN", got)
	}
}

// The machine is slow in the second round: the ratio of the medians would be 1,
// that of the rounds is 2.
func TestRatios(t *testing.T) {
	a := []round{{20, 20, 99}, {200, 200, 200}, {22}}
	b := []round{{10}, {100, 90, 110}, {11}}
	if got, want := ratios(a, b), []float64{2, 2, 2}; !slices.Equal(got, want) {
		t.Errorf("ratios are %v, want %v", got, want)
	}
	if got := ratios(a, b[:1]); len(got) != 1 {
		t.Errorf("of 3 rounds and 1, %d ratios, want 1", len(got))
	}
}

func TestSummarize(t *testing.T) {
	if got, want := summarize([]round{{7, 5, 6}, {30}, {8, 4}}), (times{Median: 6, Best: 4}); got != want {
		t.Errorf("summary is %+v, want %+v", got, want)
	}
	if got := summarize(nil); got != (times{}) {
		t.Errorf("summary of nothing is %+v, want zeros", got)
	}
}
