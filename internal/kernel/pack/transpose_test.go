package pack

import (
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/internal/kernel"
)

func TestTranspose(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 62))
	for range 300 {
		m, n := r.IntN(60), r.IntN(60)
		xs, ys := n+r.IntN(3), m+r.IntN(3)
		x := make([]uint32, m*xs)
		for i := range x {
			x[i] = r.Uint32()
		}
		for _, k := range kernel.Available() {
			y := make([]uint32, n*ys)
			transpose32(Of(k, 4), y, ys, x, xs, m, n)
			for j := range n {
				for i := range ys {
					want := uint32(0)
					if i < m {
						want = x[i*xs+j]
					}
					if y[j*ys+i] != want {
						t.Fatalf("%s: element %d,%d of %d x %d is %d, want %d", k, j, i, n, m, y[j*ys+i], want)
					}
				}
			}
		}
	}
}
