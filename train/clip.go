package train

import (
	"maps"
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// ClipByGlobalNorm scales all updates by one factor, at most 1, bounding their global norm by limit. The step
// reports the norm before clipping as norm.
func ClipByGlobalNorm(limit float64) Transform {
	return func(s *Step, us []*Update) {
		if !(limit > 0) {
			graph.Fail("clip by global norm: limit %v, want a number above 0", limit)
		}
		norm := globalNorm(us)
		s.Report("norm", norm)
		factor := primitives.Min(primitives.FullLike(norm, 1), primitives.Div(primitives.FullLike(norm, limit), norm))
		for _, u := range us {
			u.Scale(factor)
		}
	}
}

// globalNorm returns the square root of the sum of all squares. It first adds up the sums of parameters with equal
// rank.
func globalNorm(us []*Update) *graph.Value {
	rows := make([]*graph.Value, len(us)) // computed first, so that ranks exchange the sums of many parameters at once
	for i, u := range us {
		if u.scale != nil {
			u.Delta = u.Take()
		}
		rows[i] = squaresByIndex(primitives.ConvertElementType(u.Delta, graph.F32))
	}
	sums := map[int]*graph.Value{} // by number of dimensions
	for i, u := range us {
		x := primitives.ReduceSum(rows[i])
		if old := sums[u.Delta.Rank()]; old != nil {
			x = primitives.Add(old, x)
		}
		sums[u.Delta.Rank()] = x
	}
	var all *graph.Value
	for _, rank := range slices.Sorted(maps.Keys(sums)) {
		if all == nil {
			all = sums[rank]
		} else {
			all = primitives.Add(all, sums[rank])
		}
	}
	if all == nil {
		graph.Fail("clip by global norm: no parameters")
	}
	return primitives.Sqrt(all)
}

// squaresByIndex returns the sum of squares at each index of the first dimension, gathered on every rank. Because
// Zero shards that dimension, summing the result gives the same bits with and without it.
func squaresByIndex(x *graph.Value) *graph.Value {
	x = primitives.Square(x)
	var rest []int
	for d := 1; d < x.Rank(); d++ {
		rest = append(rest, d)
	}
	if rest != nil {
		x = primitives.ReduceSumUnordered(x, rest...)
	}
	return primitives.ShardingConstraint(x)
}
