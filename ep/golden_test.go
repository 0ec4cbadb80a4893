package ep

import "testing"

// Routings and counts of the JAX expert-parallel tests and example of
// TransformerEngine (tests/jax/test_multi_process_ep.py,
// examples/jax/ep/ep_moe.py), on a mesh of dp 2 × ep 2 with 4 experts, top-2
// and alignment 16.
func TestTransformerEngineCounts(t *testing.T) {
	uniform := func(token, choice int) int { return (token*2 + choice) % 4 }
	firstIsZero := func(token, choice int) int { return choice * (1 + token%3) }
	for _, c := range []struct {
		name   string
		tokens int // per rank
		route  func(token, choice int) int
		local  bool // route by the token's number within its rank
		cap    int
		counts [2][4]int32 // of each dp group, by expert
		padded [2][2]int   // of each dp group, by ep member
	}{
		{"uniform", 2, uniform, false, 0,
			[2][4]int32{{2, 2, 2, 2}, {2, 2, 2, 2}}, [2][2]int{{32, 32}, {32, 32}}},
		{"nonuniform", 2, firstIsZero, false, 0,
			[2][4]int32{{4, 2, 1, 1}, {4, 1, 2, 1}}, [2][2]int{{32, 32}, {32, 32}}},
		{"overflow, before drops", 24, firstIsZero, false, 0,
			[2][4]int32{{48, 16, 16, 16}, {48, 16, 16, 16}}, [2][2]int{{64, 32}, {64, 32}}},
		// TransformerEngine's capacity limits the rows of a rank, by slot. Ours
		// limits the pairs of an expert, in token order over both groups, so
		// that the second group's pairs come too late.
		{"overflow, experts accept 32", 24, firstIsZero, false, 32,
			[2][4]int32{{32, 16, 16, 16}, {0, 16, 16, 16}}, [2][2]int{{48, 32}, {16, 32}}},
		{"example", 8, uniform, true, 0,
			[2][4]int32{{8, 8, 8, 8}, {8, 8, 8, 8}}, [2][2]int{{32, 32}, {32, 32}}},
		{"example, skewed", 8, firstIsZero, true, 0,
			[2][4]int32{{16, 6, 6, 4}, {16, 6, 6, 4}}, [2][2]int{{32, 32}, {32, 32}}},
		{"two ranks receive nothing", 8, func(_, choice int) int { return choice }, false, 0,
			[2][4]int32{{16, 16, 0, 0}, {16, 16, 0, 0}}, [2][2]int{{32, 0}, {32, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := batch{layer: Layer{Experts: 4, Capacity: c.cap, Align: 16}, k: 2,
				tokens: []int{c.tokens, c.tokens, c.tokens, c.tokens}, groups: mesh(4, 2, false)}
			for token := range 4 * c.tokens {
				if c.local {
					token %= c.tokens
				}
				b.idx = append(b.idx, int32(c.route(token, 0)), int32(c.route(token, 1)))
			}
			res := b.simulate(t)
			res.checkAgainst(t, b)
			for g := range 2 {
				for m := range 2 {
					key := [2]int{g, m}
					equal(t, "counts", res.zoneRows[key], c.counts[g][2*m:2*m+2])
					if res.used[key] != c.padded[g][m] {
						t.Errorf("group %d member %d: %d rows, want %d", g, m, res.used[key], c.padded[g][m])
					}
				}
			}
		})
	}
}

// The bound is never above the ones published for TransformerEngine's moe()
// and DeepEP's expanded layout, which hold if the K choices of a token differ.
func TestBoundAgainstPublishedOnes(t *testing.T) {
	for _, align := range []int{1, 8, 16, 128} {
		for _, local := range []int{1, 2, 8, 32} {
			for _, tokens := range []int{1, 2, 7, 64, 4096} {
				for k := 1; k <= local; k *= 2 {
					pairs := tokens * k
					l := Layer{Experts: local, Align: align}
					got := l.RankRows(pairs, local)
					te := roundUp(pairs+(align-1)*min(local, pairs), align)
					deepEP := roundUp(pairs+(align-1)*local, align)
					if got > te || got > deepEP {
						t.Errorf("%d tokens × %d to %d experts aligned to %d: %d rows, want at most %d and %d", tokens, k, local, align, got, te, deepEP)
					}
				}
			}
		}
	}
}
