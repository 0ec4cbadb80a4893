package train

import (
	"maps"
	"slices"

	"github.com/gomoe/gomoe/graph"
	pr "github.com/gomoe/gomoe/primitives"
)

// ClipByGlobalNorm multiplies all updates with the same factor, of at most 1, so that the square root of the sum of
// all squares is at most limit. The step reports the norm before that as norm.
func ClipByGlobalNorm(limit float64) Transform {
	return func(s *Step, us []*Update) {
		if !(limit > 0) {
			graph.Fail("clip by global norm: limit %v, want a number above 0", limit)
		}
		norm := globalNorm(us)
		s.Report("norm", norm)
		factor := pr.Min(pr.FullLike(norm, 1), pr.Div(pr.FullLike(norm, limit), norm))
		for _, u := range us {
			u.Scale(factor)
		}
	}
}

// globalNorm returns the square root of the sum of squares. Updates of experts lie on other ranks than those of
// matrices. So those with as many dimensions are added to each other first, and ranks exchange one number for all.
func globalNorm(us []*Update) *graph.Value {
	sums := map[int]*graph.Value{} // by number of dimensions
	for _, u := range us {
		d := u.Delta
		if u.scale != nil {
			d = u.Take()
			u.Delta = d
		}
		x := pr.ReduceSumUnordered(pr.Square(pr.ConvertElementType(d, graph.F32)))
		if old := sums[d.Rank()]; old != nil {
			x = pr.Add(old, x)
		}
		sums[d.Rank()] = x
	}
	var all *graph.Value
	for _, rank := range slices.Sorted(maps.Keys(sums)) {
		if all == nil {
			all = sums[rank]
		} else {
			all = pr.Add(all, sums[rank])
		}
	}
	if all == nil {
		graph.Fail("clip by global norm: no parameters")
	}
	return pr.Sqrt(all)
}
