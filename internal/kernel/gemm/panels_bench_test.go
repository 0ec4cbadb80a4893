package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gomoe/gomoe/array"
)

// BenchmarkPanels measures products with experts' matrices, which come from memory. It
// reports the shortest time of 16 products in ms, with their own copies, with panels that
// are kept, and with panels that are made in a pass of their own each time.
func BenchmarkPanels(b *testing.B) {
	b.Run("f32", benchPanels[float32])
	b.Run("bf16", benchPanels[array.Brain])
}

func benchPanels[E Number](b *testing.B) {
	const experts, k, n = 16, 1024, 1024
	ks := selected()
	r := rand.New(rand.NewPCG(1, 1))
	w, x, y := make([]E, experts*k*n), make([]E, 1024*k), make([]E, 1024*n)
	for _, s := range [][]E{w, x} {
		for i := range s {
			f := []float32{float32(r.NormFloat64())}
			switch s := any(s[i : i+1]).(type) {
			case []float32:
				s[0] = f[0]
			case []array.Brain:
				array.NarrowBrain(s, f)
			}
		}
	}
	for _, layout := range []string{"NN", "NT"} {
		size := panelBytes[E](ks, k, n, true)
		if size == 0 {
			continue
		}
		mem := make([]byte, experts*size)
		matrix := func(e int) Matrix[E] {
			if layout == "NT" {
				return Matrix[E]{X: w[e*k*n : (e+1)*k*n], Row: 1, Col: k}
			}
			return Matrix[E]{X: w[e*k*n : (e+1)*k*n], Row: n, Col: 1}
		}
		panels := func(e int) Panels { return PanelsIn(mem[e*size:(e+1)*size], k, n) }
		all := func(pack bool) {
			for e := range experts {
				if pack {
					Pack(panels(e), matrix(e), 0, n)
				}
			}
		}
		all(true)
		for _, m := range []int{1, 4, 16, 32, 64, 128, 256, 512} {
			b.Run(fmt.Sprintf("%s/%d", layout, m), func(b *testing.B) {
				ways := []string{"own", "kept", "pass"}
				least := make([]time.Duration, len(ways))
				for i := 0; b.Loop(); i++ {
					for w, way := range ways { // in turns, since other loads come and go
						began := time.Now()
						all(way == "pass")
						for e := range experts {
							right := matrix(e)
							if way != "own" {
								right.Panels = panels(e)
							}
							MultiplyPanels(nil, m, n, k, x, k, 1, right, y, n, false)
						}
						if took := time.Since(began); i == 0 || took < least[w] {
							least[w] = took
						}
					}
				}
				for w, way := range ways {
					b.ReportMetric(least[w].Seconds()*1e3, "ms-"+way)
				}
			})
		}
	}
}
