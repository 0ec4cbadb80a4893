package gemm

import (
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// Strips, which multiply few rows with columns where these lie, have the bits of tiles, of extremes
// too, also where columns remain behind them, and do the products that they are for.
func TestGemmHalfStrips(t *testing.T) {
	r := rand.New(rand.NewPCG(37, 38))
	for i := range 80 {
		p := newHalfProduct[array.Brain, float32](r, 1+i%(stripMost+1), pairLanes+r.IntN(50), stripDeep*(1+r.IntN(40)))
		p.ars, p.acs, p.brs, p.bcs = p.k+r.IntN(3), 1, 1, p.k+r.IntN(3)
		if i%10 == 7 { // which rows of A that are not contiguous are not
			p.ars, p.acs = 1, p.m+1
		}
		p.a = narrowed[array.Brain](numbers.Normals[float32](r, p.m*p.ars+p.k*p.acs))
		p.b = narrowed[array.Brain](numbers.Normals[float32](r, p.n*p.bcs))
		if i >= 20 {
			extremes(r, i, p.a, p.b)
		}
		for _, k := range available() {
			tiles, strips, calls, deep := k, k, 0, gemmDeep
			count := func(s *stripSet) *stripSet {
				counted := &stripSet{few: s.few}
				for rows, do := range s.products {
					counted.products[rows] = func(t *byte) { calls++; do(t) }
				}
				return counted
			}
			var s *stripSet
			switch {
			case k.bf16 != nil && k.bf16.strips != nil:
				s, deep = k.bf16.strips, dotDeep
				with, without := *k.bf16, *k.bf16
				with.strips, without.strips = count(s), nil
				strips.bf16, tiles.bf16 = &with, &without
			case k.bf16 == nil && k.brainStrips != nil:
				s = k.brainStrips
				strips.brainStrips, tiles.brainStrips = count(s), nil
			default:
				continue
			}
			numbers.SameBits(t, k.name+" "+k.half()+" "+p.String(), p.by(strips), p.by(tiles))
			want := p.n / pairLanes * ((p.k + deep - 1) / deep)
			if p.m > s.few {
				want *= 2
			}
			if p.m > stripMost || p.acs > 1 {
				want = 0
			}
			if calls != want {
				t.Errorf("%s: %d calls, want %d", p, calls, want)
			}
		}
	}
}
