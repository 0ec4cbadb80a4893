package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// BenchmarkGemmHalf measures every engine, and beside it the product of the same
// numbers in float32. The benchmark peak is the most that one core can do: the
// largest tile, on numbers that never leave the first-level cache.
func BenchmarkGemmHalf(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	report := func(b *testing.B, m, n, k int) {
		b.ReportMetric(2*float64(m)*float64(n)*float64(k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
	}
	for _, ks := range available() {
		b.Run(ks.name, func(b *testing.B) {
			if s := ks.bf16; s != nil {
				b.Run("peak", func(b *testing.B) {
					w := halfWorkspaceOf(nil)
					defer w.release()
					deep := min(s.deep, 512) // of 64 rows and columns it fits
					x := narrowed[array.Brain](numbers.Normals[float32](r, deep*(s.most+s.wide)))
					tile, rows := s.tile(s.most, s.wide/pairLanes)
					b0, edge := unsafe.Pointer(&x[0]), unsafe.Pointer(&w.edge()[0])
					w.work = halfWork{blocks: 1, config: &w.config, deep: deep / 2, b: b0, bstride: uintptr(4 * s.wide), c: edge, cstride: uintptr(4 * s.wide)}
					l := pairLeft{copies: make([]uint32, deep/2*s.most), pairs: deep / 2}
					copy(brains(l.copies), x[deep*s.wide:])
					if s.squares {
						w.work.deep = deep / (2 * squarePairs)
					}
					for b.Loop() {
						l.of(&w.work, 0, s.most)
						tile(w.work.of())
					}
					report(b, rows, s.wide, deep)
				})
			}
			for _, c := range []struct {
				name    string
				m, n, k int
				layout  string
			}{
				{"512", 512, 512, 512, "NN"}, {"1024", 1024, 1024, 1024, "NN"}, {"2048", 2048, 2048, 2048, "NN"},
				{"up", 256, 1024, 512, "NN"}, {"down", 256, 512, 1024, "NN"},
				{"dgrad", 256, 512, 1024, "NT"}, {"wgrad", 512, 1024, 256, "TN"},
				{"router", 1024, 8, 512, "NN"}, {"expert8", 8, 1024, 512, "NN"}, {"expert24", 24, 1024, 512, "NN"}, {"attention", 64, 64, 64, "NT"},
				{"decode1", 1, 4096, 512, "NN"}, {"decode3", 3, 4096, 512, "NN"}, {"decode1", 1, 4096, 512, "NT"}, {"decode4", 4, 4096, 512, "NT"},
			} {
				x, y := numbers.Normals[float32](r, c.m*c.k), numbers.Normals[float32](r, c.k*c.n)
				ars, acs, brs, bcs := c.k, 1, c.n, 1
				if c.layout[0] == 'T' {
					ars, acs = 1, c.m
				}
				if c.layout[1] == 'T' {
					brs, bcs = 1, c.k
				}
				name := fmt.Sprintf("%s/%s/", c.name, c.layout)
				b.Run(name+"f32", func(b *testing.B) {
					w, z := workspaceOf[float32](nil), make([]float32, c.m*c.n)
					defer w.release()
					for b.Loop() {
						w.multiply(ks.f32, c.m, c.n, c.k, x, ars, acs, y, brs, bcs, Panels{}, z, c.n, false)
					}
					report(b, c.m, c.n, c.k)
				})
				bx, by := narrowed[array.Brain](x), narrowed[array.Brain](y)
				b.Run(name+"bf16", func(b *testing.B) {
					z := make([]array.Brain, c.m*c.n)
					for b.Loop() {
						multiplyHalf(nil, ks, c.m, c.n, c.k, bx, ars, acs, Matrix[array.Brain]{X: by, Row: brs, Col: bcs}, z, c.n, false)
					}
					report(b, c.m, c.n, c.k)
				})
				hx, hy := narrowed[array.Half](x), narrowed[array.Half](y)
				b.Run(name+"f16", func(b *testing.B) {
					z := make([]array.Half, c.m*c.n)
					for b.Loop() {
						multiplyHalf(nil, ks, c.m, c.n, c.k, hx, ars, acs, Matrix[array.Half]{X: hy, Row: brs, Col: bcs}, z, c.n, false)
					}
					report(b, c.m, c.n, c.k)
				})
			}
		})
	}
}
