package main

import (
	"math"
	"strings"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// A difference counts relative to the largest element; numbers differ from what is none
// without bounds, and NaNs from NaNs not at all.
func TestApart(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		got, want []float32
		apart     float64
	}{
		{[]float32{1, 2}, []float32{1, 2}, 0},
		{[]float32{1, 4}, []float32{2, 4}, 0.25},
		{[]float32{0, 0x1p-20}, []float32{0, 0}, 0x1p-20 / 1e-3},
		{[]float32{nan, inf, 4}, []float32{nan, inf, 2}, 1},
		{[]float32{nan, 1}, []float32{1, 1}, math.Inf(1)},
		{[]float32{1, 1}, []float32{nan, 1}, math.Inf(1)},
		{[]float32{-inf}, []float32{inf}, math.Inf(1)},
		{nil, nil, 0},
	} {
		got, err := array.Of(c.got, len(c.got))
		if err != nil {
			t.Fatal(err)
		}
		want, err := array.Of(c.want, len(c.want))
		if err != nil {
			t.Fatal(err)
		}
		if d := apart(got, want); d != c.apart {
			t.Errorf("%v is %v apart from %v, want %v", c.got, d, c.want, c.apart)
		}
	}
	wrong := &deviceCheck{Device: "metal", Results: []deviceDiff{{"y", "f32[2]", 0.25, number(allowedOn(graph.F32)), false}}}
	if s := wrong.String(); !strings.Contains(s, "\nWRONG  y f32[2]: differs from the host by 2.5e-01 of the largest element (allowed 1e-04)\n") {
		t.Error(s)
	}
}
