package kernels_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal/kernels"
)

// What a tolerance allows, and where the worst element is.
func TestCompare(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	far := make([]float64, 1<<16+3) // more than are widened at once
	farther := append([]float64{}, far...)
	farther[1<<16+1] = 0.5
	absolute, relative, ofMax := kernels.Tolerance{Absolute: 0.25}, kernels.Tolerance{Relative: 0.5}, kernels.Tolerance{OfMax: 0.125}
	for _, c := range []struct {
		name      string
		d         graph.DType
		t         kernels.Tolerance
		got, want []float64
		out       kernels.Difference
	}{
		{"equal", graph.F32, kernels.Tolerance{}, []float64{1, nan, inf}, []float64{1, nan, inf}, kernels.Difference{}},
		{"other bits", graph.F32, kernels.Tolerance{}, []float64{1, math.Copysign(0, -1)}, []float64{1, 0}, kernels.Difference{Share: inf, At: 1}},
		{"a zero's sign", graph.F32, absolute, []float64{1, math.Copysign(0, -1)}, []float64{1, 0}, kernels.Difference{}},
		{"absolute", graph.F32, absolute, []float64{1, 2.125, 3}, []float64{1, 2, 3}, kernels.Difference{Largest: 0.125, Share: 0.5, At: 1}},
		{"relative", graph.F32, relative, []float64{1.5, 10}, []float64{1, 8}, kernels.Difference{Largest: 2, Share: 1}},
		{"of the largest", graph.F32, ofMax, []float64{2, 8}, []float64{0, 8}, kernels.Difference{Largest: 2, Share: 2}},
		{"of the largest that is finite", graph.F32, ofMax, []float64{2, 8, inf}, []float64{0, 8, inf}, kernels.Difference{Largest: 2, Share: 2}},
		{"of the largest that is a number", graph.F32, ofMax, []float64{2, 8, nan}, []float64{0, 8, nan}, kernels.Difference{Largest: 2, Share: 2}},
		{"no number", graph.F32, absolute, []float64{0, nan}, []float64{0, 1}, kernels.Difference{Largest: nan, Share: inf, At: 1}},
		{"no number first", graph.F32, absolute, []float64{nan, 2}, []float64{0, 1}, kernels.Difference{Largest: nan, Share: inf}},
		{"infinite", graph.F32, relative, []float64{1, 3}, []float64{1, inf}, kernels.Difference{Largest: inf, Share: inf, At: 1}},
		{"a unit of bf16", graph.BF16, kernels.Tolerance{Absolute: 1e-30}, []float64{1 + 1.0/128}, []float64{1}, kernels.Difference{Largest: 1.0 / 128, Share: 1}},
		{"two units of f16", graph.F16, kernels.Tolerance{Absolute: 1e-30}, []float64{1 + 2.0/1024}, []float64{1}, kernels.Difference{Largest: 2.0 / 1024, Share: 2}},
		{"far behind", graph.F32, absolute, farther, far, kernels.Difference{Largest: 0.5, Share: 2, At: 1<<16 + 1}},
		{"integers", graph.I32, absolute, []float64{1, 7}, []float64{1, 4}, kernels.Difference{Largest: 3, Share: inf, At: 1}},
	} {
		of := func(x []float64) array.Array {
			a := array.New(graph.T(c.d, len(x)))
			require.NoError(t, a.SetFloat64s(x))
			return a
		}
		got := c.t.Compare(of(c.got), of(c.want))
		if math.IsNaN(c.out.Largest) && math.IsNaN(got.Largest) {
			got.Largest, c.out.Largest = 0, 0
		}
		if math.Abs(got.Share-c.out.Share) < 1e-12 {
			got.Share = c.out.Share
		}
		if got != c.out {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.out)
		}
	}
}
