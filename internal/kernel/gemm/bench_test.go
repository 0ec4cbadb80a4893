package gemm

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// BenchmarkGemm measures each kernel. The benchmark peak is the most that one core can
// do: the largest tile, on numbers that never leave the first-level cache.
func BenchmarkGemm(b *testing.B) {
	b.Run("f32", benchmarkGemm[float32])
	b.Run("f64", benchmarkGemm[float64])
}

func benchmarkGemm[T kernel.Float](b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	report := func(b *testing.B, m, n, k int) {
		b.ReportMetric(2*float64(m)*float64(n)*float64(k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
	}
	for _, kernels := range available() {
		s := kernels.set(unsafe.Sizeof(T(0)))
		b.Run(kernels.name, func(b *testing.B) {
			if s != nil {
				b.Run("peak", func(b *testing.B) {
					w, wide := workspaceOf[T](nil), tileVecs*s.lanes
					x := numbers.Normals[T](r, gemmDeep*8+wide)
					tile, rows := s.tileOf(s.rows, tileVecs)
					w.work = work{deep: gemmDeep, a: unsafe.Pointer(&x[wide]), b: unsafe.Pointer(&x[0]),
						astride: unsafe.Sizeof(T(0)), astep: 8 * unsafe.Sizeof(T(0)),
						c: unsafe.Pointer(&w.edge), cstride: uintptr(wide) * unsafe.Sizeof(T(0))}
					for b.Loop() {
						tile(w.work.of())
					}
					report(b, rows, wide, gemmDeep)
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
				x, y, z := numbers.Normals[T](r, c.m*c.k), numbers.Normals[T](r, c.k*c.n), make([]T, c.m*c.n)
				ars, acs, brs, bcs := c.k, 1, c.n, 1
				if c.layout[0] == 'T' {
					ars, acs = 1, c.m
				}
				if c.layout[1] == 'T' {
					brs, bcs = 1, c.k
				}
				for _, parts := range []int{1, 2} {
					if parts > 1 && c.name != "1024" && c.name != "up" {
						continue
					}
					b.Run(fmt.Sprintf("%s/%s/%d", c.name, c.layout, parts), func(b *testing.B) {
						for b.Loop() {
							var wg sync.WaitGroup
							for p := range parts {
								lo, hi := c.m*p/parts, c.m*(p+1)/parts
								part := func() {
									w := workspaceOf[T](nil)
									w.multiply(s, hi-lo, c.n, c.k, x[lo*ars:], ars, acs, y, brs, bcs, Panels{}, z[lo*c.n:], c.n, false)
									w.release()
								}
								if parts == 1 {
									part()
								} else {
									wg.Go(part)
								}
							}
							wg.Wait()
						}
						report(b, c.m, c.n, c.k)
					})
				}
			}
		})
	}
}
