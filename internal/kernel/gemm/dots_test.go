package gemm

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// Rows that are multiplied with columns where these lie have the bits of tiles.
func TestGemmDots(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 7))
	for _, ks := range available() {
		s := ks.set(4)
		if s == nil || s.dots == nil {
			continue
		}
		tiles := *s
		tiles.dots = nil
		called := 0
		counted := *s
		counted.dots = func(t *byte) { called++; s.dots(t) }
		for _, k := range []int{4, 12, 16, 20, 256, 260, 532, 2048} {
			for _, n := range []int{s.lanes, s.lanes + 1, 64, 100} {
				for m := 1; m <= dotsRows; m++ {
					for _, acc := range []bool{false, true} {
						ars, bcs := k+r.IntN(5), k+r.IntN(5)
						a, b := numbers.Normals[float32](r, m*ars), numbers.Normals[float32](r, n*bcs)
						c := numbers.Normals[float32](r, m*n)
						want := slices.Clone(c)
						w := workspaceOf[float32](nil)
						called = 0
						w.multiply(&counted, m, n, k, a, ars, 1, b, 1, bcs, Panels{}, c, n, acc)
						w.multiply(&tiles, m, n, k, a, ars, 1, b, 1, bcs, Panels{}, want, n, acc)
						w.release()
						if !slices.Equal(c, want) {
							t.Errorf("%s m=%d n=%d k=%d columns %d apart, acc=%v: %v, want %v", ks.name, m, n, k, bcs, acc, c, want)
						}
						if blocks := (k + gemmDeep - 1) / gemmDeep; called != m*(n/s.lanes)*blocks {
							t.Errorf("%s m=%d n=%d k=%d: %d vectors of columns where they lie, want %d", ks.name, m, n, k, called, m*(n/s.lanes)*blocks)
						}
					}
				}
			}
		}
	}
}
