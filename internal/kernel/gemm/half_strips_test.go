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
		p.a = narrowed[array.Brain](numbers.Normals[float32](r, p.m*p.ars))
		p.b = narrowed[array.Brain](numbers.Normals[float32](r, p.n*p.bcs))
		if i >= 20 {
			extremes(r, i, p.a, p.b)
		}
		for _, k := range available() {
			if k.bf16 == nil || k.bf16.strips == nil {
				continue
			}
			tiles, strips, s, counted, calls := k, k, *k.bf16, *k.bf16, 0
			s.strips = nil
			counted.strips = &[stripMost]func(*byte){}
			for rows, do := range k.bf16.strips {
				counted.strips[rows] = func(t *byte) { calls++; do(t) }
			}
			tiles.bf16, strips.bf16 = &s, &counted
			numbers.SameBits(t, k.name+" "+k.half()+" "+p.String(), p.by(strips), p.by(tiles))
			want := p.n / pairLanes * ((p.k + dotDeep - 1) / dotDeep)
			if p.m > stripMost {
				want = 0
			}
			if calls%max(want, 1) != 0 || (calls == 0) != (want == 0) {
				t.Errorf("%s: %d strips, want %d", p, calls, want)
			}
		}
	}
}
