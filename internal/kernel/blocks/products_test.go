package blocks

import (
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// A token takes hundreds of products of a few rows of weights.
func TestProductsAllocateNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	const n, k = 16, 256
	for _, d := range []graph.DType{graph.Q8_0, graph.Q4_K, graph.Q4_0} {
		w := randomBlocks(r, d, n, k)
		for _, m := range []int{1, 2} {
			rows, y := quantRows(d, k, numbers.Normals[float32](r, m*k)), make([]float32, m*n)
			for _, v := range available() {
				if v.set == nil || d == graph.Q4_0 && v.set.directPairs[groupIndex(d)] == nil {
					continue // products in Go, and groups, which are unpacked to memory
				}
				if a := testing.AllocsPerRun(100, func() { v.set.multiply(d, m, n, k, rows, w, nil, y, n, 1) }); a > 0 {
					t.Errorf("%s %s with %d rows: %v allocations of a product", v.name, d, m, a)
				}
			}
		}
	}
}
