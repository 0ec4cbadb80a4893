package fuzzprog

import "testing"

// FuzzPrograms compares the program of a seed, and its derivative, on one rank
// with several.
func FuzzPrograms(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		n := tally{why: refusals{}}
		n.placements(t, seed)
		n.pullbacks(t, seed)
	})
}
