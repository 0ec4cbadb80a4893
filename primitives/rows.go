package primitives

import (
	"fmt"
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// rowsOf returns the number and the length of the rows along the last dimension.
func rowsOf(t graph.Type) (rows, n int) {
	rows, n, _ = t.Around(t.Rank() - 1)
	return rows, n
}

// rowGrain returns the least number of rows of n elements that is worth a goroutine,
// where an element takes some nanoseconds.
func rowGrain(n int) int { return 1 + 2*dear/(1+n) }

// rowDims returns the factors of a value's dimensions: dimension i has factor i, except
// that the axis must be whole. rank is the number of dimensions.
func rowDims(rank, axis int) []int {
	dims := make([]int, rank)
	for i := range dims {
		dims[i] = i
	}
	dims[axis] = sharding.Whole
	return dims
}

// sumOfRows returns the factors of a primitive that sums over the rows of `args`
// arguments, each of `rank` dimensions. Its results have the last dimension only.
func sumOfRows(rank, args, results int) sharding.Factors {
	f := sharding.Factors{Sum: rowDims(rank, rank-1)[:rank-1]}
	for range args {
		f.In = append(f.In, rowDims(rank, rank-1))
	}
	for range results {
		f.Out = append(f.Out, []int{sharding.Whole})
	}
	return f
}

// parameterOf returns an error unless param, a parameter of rows x[..,D], has x's
// element type and shape [D].
func parameterOf(x, param graph.Type, name string) error {
	want := graph.T(x.DType, x.Shape[x.Rank()-1])
	if !param.Equal(want) {
		return fmt.Errorf("%s is %s for rows of %s, want %s", name, param, x, want)
	}
	return nil
}

// epsilon returns an error if eps is negative, infinite or NaN.
func epsilon(eps float64) error {
	if !(eps >= 0) || math.IsInf(eps, 0) {
		return fmt.Errorf("eps=%v, want a finite number of at least 0, such as eps=1e-06", eps)
	}
	return nil
}
