package lowering

import (
	"math/rand/v2"
	"testing"
)

// TestArena compares offsets with the lowest that overlap nothing, which it finds by trying all.
func TestArena(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	type placed struct {
		first, last int
		from, to    int64
	}
	for round := range 200 {
		n := 1 + r.IntN(30)
		a := newArena(n)
		var all []placed
		for range 60 {
			first := r.IntN(n)
			last := first + r.IntN(n-first)
			bytes := int64(r.IntN(4))
			want := int64(0)
			for again := bytes > 0; again; {
				again = false
				for _, p := range all {
					if p.first <= last && first <= p.last && p.from < want+bytes && want < p.to {
						want, again = want+1, true
					}
				}
			}
			if got := a.room(first, last, bytes); got != want {
				t.Fatalf("round %d: %d bytes for instructions %d to %d of %d lie at %d, want %d", round, bytes, first, last, n, got, want)
			}
			all = append(all, placed{first, last, want, want + bytes})
		}
	}
}
