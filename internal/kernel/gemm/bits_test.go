package gemm

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

var update = flag.Bool("update", false, "write testdata/bits.txt with this machine's bits")

// TestBits compares products' bits with those that all machines agree on.
func TestBits(t *testing.T) {
	numbers.SameEverywhere(t, "testdata/bits.txt", *update, func(k kernel.Kind) map[string]string {
		family := numbers.Family(k)
		return map[string]string{family + " gemm f32": digest[float32](kernelsOf(k)), family + " gemm f64": digest[float64](kernelsOf(k))}
	})
}

func digest[T kernel.Float](k kernels) string {
	r := rand.New(rand.NewPCG(31, 32))
	var results [][]float64
	for i, s := range [][3]int{{1, 300, 700}, {2, 130, 70}, {3, 101, 300}, {37, 70, 600}, {130, 49, 258}, {9, 60, 1100}} {
		for layout := range 4 {
			m, n, deep := s[0], s[1], s[2]
			p := product[T]{m: m, n: n, k: deep, ars: deep, acs: 1, brs: n, bcs: 1, ldc: n, acc: i%2 == 0,
				a: numbers.Drawn[T](r, m*deep), b: numbers.Drawn[T](r, deep*n), c: numbers.Drawn[T](r, m*n)}
			if layout&1 != 0 {
				p.ars, p.acs = 1, m
			}
			if layout&2 != 0 {
				p.brs, p.bcs = 1, deep
			}
			results = append(results, numbers.Wide(p.by(k)))
		}
	}
	return numbers.Digest(results...)
}
