package main

import (
	"cmp"
	"math"
	"slices"
)

// row is one workload with a number of threads against one peer.
type row struct {
	Workload    string  `json:"workload"`
	Title       string  `json:"title"`
	Threads     int     `json:"threads"`
	Peer        string  `json:"peer"`
	Version     string  `json:"version,omitempty"`
	Formulation string  `json:"formulation,omitempty"` // the peer's fastest
	Gomoe       times   `json:"gomoe"`
	Other       times   `json:"other"`           // the peer's
	Ratio       float64 `json:"ratio,omitempty"` // median of the rounds' ratios of gomoe's time to the peer's; 0 means not measured
	Target      float64 `json:"target"`
	Error       float64 `json:"error"` // largest difference of the peer's results from gomoe's, relative to the largest element
	Flop        float64 `json:"flop,omitempty"`
	Tokens      int     `json:"tokens,omitempty"` // of a step
	Note        string  `json:"note,omitempty"`   // the reason for a missing ratio
	// Crash describes the peer's crash and the setting with which it was restarted.
	Crash string `json:"crash,omitempty"`
	// GomoeResident and OtherResident are the bytes of their own that both sides held in memory; 0 means not measured.
	GomoeResident int64         `json:"gomoe_resident,omitempty"`
	OtherResident int64         `json:"other_resident,omitempty"`
	Formulations  []formulation `json:"formulations,omitempty"`
}

// times are the times of one side in nanoseconds. Zeros mean not measured.
type times struct {
	Median float64 `json:"median_ns"` // of the rounds' medians
	Best   float64 `json:"best_ns"`   // of all runs
}

// round is one round's runs in nanoseconds.
type round []int64

// summarize returns the times of all rounds together.
func summarize(rounds []round) times {
	var medians []float64
	best := math.Inf(1)
	for _, r := range rounds {
		medians = append(medians, r.median())
		best = min(best, float64(slices.Min(r)))
	}
	if len(medians) == 0 {
		return times{}
	}
	return times{median(medians), best}
}

func (r round) median() float64 {
	x := make([]float64, len(r))
	for i, ns := range r {
		x[i] = float64(ns)
	}
	return median(x)
}

// ratios returns, per round, the time of a divided by the time of b.
func ratios(a, b []round) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i].median() / b[i].median()
	}
	return out
}

// median returns the middle element of x, or the mean of the two in the middle;
// NaN if x is empty. It does not change x.
func median(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	x = slices.Clone(x)
	slices.SortFunc(x, cmp.Compare[float64])
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
