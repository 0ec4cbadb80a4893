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
		run := func(m, n, k, acs, brs int, acc bool, want int) {
			t.Helper()
			ars, bcs := k*acs+r.IntN(5), k*brs+r.IntN(5)
			a, b := numbers.Normals[float32](r, m*ars), numbers.Normals[float32](r, n*bcs)
			c := numbers.Normals[float32](r, m*n)
			exact := slices.Clone(c)
			w := workspaceOf[float32](nil)
			called = 0
			w.multiply(&counted, m, n, k, a, ars, acs, b, brs, bcs, Panels{}, c, n, acc)
			w.multiply(&tiles, m, n, k, a, ars, acs, b, brs, bcs, Panels{}, exact, n, acc)
			w.release()
			if !slices.Equal(c, exact) {
				t.Errorf("%s m=%d n=%d k=%d acs=%d brs=%d columns %d apart, acc=%v: %v, want %v", ks.name, m, n, k, acs, brs, bcs, acc, c, exact)
			}
			if called != want {
				t.Errorf("%s m=%d n=%d k=%d acs=%d brs=%d: %d vectors of columns where they lie, want %d", ks.name, m, n, k, acs, brs, called, want)
			}
		}
		for _, k := range []int{4, 12, 16, 20, 256, 260, 532, 2048} {
			for _, n := range []int{s.lanes, s.lanes + 1, 64, 100} {
				for m := 1; m <= dotsRows; m++ {
					for _, acc := range []bool{false, true} {
						run(m, n, k, 1, 1, acc, m*(n/s.lanes)*((k+gemmDeep-1)/gemmDeep))
					}
				}
			}
		}
		run(1, 64, 32, 2, 1, false, 0) // other products are not for them
		run(1, 64, 32, 1, 2, false, 0)
		run(1, 64, 33, 1, 1, false, 0)
		run(1, s.lanes-1, 32, 1, 1, false, 0)
		run(dotsRows+1, 64, 32, 1, 1, false, 0)
	}
}
