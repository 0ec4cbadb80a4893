package primitives

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// For every cut of the work, each unit of each expert with rows is done once, starting at
// the expert's first row. A piece is small only if the expert's work is small.
func TestExpertWork(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		z := expertWork{make([]int32, 1+rng.IntN(6)), rng.IntN(5), rng.IntN(2) * rng.IntN(90)}
		work, start, row := 0, make([]int, len(z.counts)), 0
		done := make([][]int, len(z.counts))
		for e := range z.counts {
			n := rng.IntN(3) * rng.IntN(100)
			z.counts[e], start[e] = int32(n), row
			row += n
			for z.align > 1 && row%z.align != 0 {
				row++
			}
			work += n * max(z.units, 1)
			done[e] = make([]int, n)
			if z.units > 0 && n > 0 {
				done[e] = make([]int, z.units)
			}
		}
		at := []int{0, work}
		for range rng.IntN(5) {
			at = append(at, rng.IntN(work+1))
		}
		slices.Sort(at)
		for i := range at[1:] {
			z.each(at[i], at[i+1], func(e, first, from, to int) {
				if first != start[e] {
					t.Fatalf("%+v: expert %d starts at row %d, want %d", z, e, first, start[e])
				}
				if to-from < min(minPieceUnits, len(done[e])) && i > 0 && i < len(at)-2 && at[i+1]-at[i] >= 2*minPieceUnits*max(1, int(z.counts[e])) {
					t.Fatalf("%+v cut at %v: expert %d does %d to %d of %d units", z, at, e, from, to, len(done[e]))
				}
				for u := from; u < to; u++ {
					done[e][u]++
				}
			})
		}
		for e, d := range done {
			if slices.ContainsFunc(d, func(n int) bool { return n != 1 }) {
				t.Fatalf("%+v cut at %v: expert %d does its units %v times", z, at, e, d)
			}
		}
	}
}
