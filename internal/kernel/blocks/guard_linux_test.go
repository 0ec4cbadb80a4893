package blocks

import (
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/internal/testing/numbers"
	"github.com/gomoe/gomoe/quant"
)

// No function touches what is behind the last element; if one did, this test would crash.
func TestBlocksStayInside(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for _, d := range quant.Types() {
		block, _ := d.Block()
		for _, c := range [][3]int{{1, 1, 1}, {1, 4, 4}, {2, 5, 5}, {4, 2, 8}, {8, 17, 4}, {8, 16, 4}, {18, 17, 4}, {33, 16, 4}} {
			m, n, k := c[0], c[1], c[2]*block
			x := numbers.AtGuard(t, numbers.Normals[float32](r, m*k))
			w := numbers.AtGuard(t, randomBlocks(r, d, n, k))
			rows, y := numbers.AtGuard(t, make([]byte, m*RowBytes(d, k))), numbers.AtGuard(t, make([]float32, m*n))
			for _, v := range sets() {
				v.set.quantizeRows(d, k, rows, x)
				v.set.multiply(d, m, n, k, rows, w, nil, y, n, 1)
			}
		}
	}
}
