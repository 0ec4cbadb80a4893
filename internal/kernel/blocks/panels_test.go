package blocks

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/internal/testing/numbers"
	"github.com/gomoe/gomoe/quant"
)

// Products of many rows have the bits of the portable kernels: for all numbers of rows in a
// strip and in a tile, also of AMX's, rows behind the last strip, more rows than a strip is multiplied with
// at a time, panels that are not full, more than one panel, rows that take two pieces of a panel, and more
// rows than are multiplied with a piece.
func TestManyRowsAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for _, d := range quant.Types() {
		block, size := d.Block()
		for _, c := range [][3]int{{2, 16, 256}, {2, 35, 768}, {3, 49, 1280}, {3, 16, 4096 + 256}, {4, 33, 768}, {5, 16, 512}, {6, 32, 256}, {7, 16, 256}, {8, 32, 256}, {9, 33, 512}, {10, 40, 1280}, {11, 16, 768}, {13, 65, 256}, {66, 17, 4096 + 256}, {8, 31, 2*4096 + 512},
			{16, 32, 256}, {17, 17, 512}, {33, 16, 768}, {47, 33, 256}, {64, 32, 512}, {97, 16, 256}, {70, 17, 4096 + 512}, {300, 16, 4096 + 256}, {600, 16, 256}} {
			m, n, k := c[0], c[1], c[2]
			if block == 32 && n == 40 {
				k += 32 // blocks behind the last whole group
			}
			x := numbers.Normals[float32](r, m*k)
			for i := range x {
				x[i] *= float32(math.Exp(r.NormFloat64()))
			}
			x[r.IntN(k)] = float32(math.NaN())
			x[k+r.IntN(k)] = float32(math.Inf(-1))
			clear(x[(m-1)*k:][:block])
			w := append(make([]byte, 3, 3+n*k/block*size), randomBlocks(r, d, n, k)...)[3:]
			for i := range w[:size] {
				w[i] = 0xff // all bits, and scales that are NaN
			}
			rows, want := quantRows(d, k, x), make([]float32, m*n)
			var portable *set
			portable.multiply(d, m, n, k, rows, w, nil, want, n, 1)
			for _, v := range sets() {
				for _, transposed := range []bool{false, true} {
					yrs, ycs, length := n+2, 1, m*(n+2)
					if transposed {
						yrs, ycs, length = 1, m+1, n*(m+1)
					}
					between := numbers.Normals[float32](r, length)
					got := append([]float32(nil), between...)
					v.set.multiply(d, m, n, k, rows, w, w[:size], got, yrs, ycs)
					for i := range m {
						for j := range n {
							sameQuant(t, fmt.Sprintf("%s %s %v at %d,%d", v.name, d, c, i, j), got[i*yrs+j*ycs], want[i*n+j])
							got[i*yrs+j*ycs] = between[i*yrs+j*ycs]
						}
					}
					numbers.SameBits(t, fmt.Sprintf("%s %s %v: what is between elements", v.name, d, c), got, between)
				}
			}
		}
	}
}
