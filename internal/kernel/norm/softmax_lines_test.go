package norm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// Short rows, which share calls, have the bits that a call for each would give, with
// every kind of kernels that is here.
func TestShortRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	same := func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y }
	for _, v := range append(numbers.Vectors(), kernel.Portable) {
		for n := 1; n <= 20; n++ {
			for _, rows := range []int{0, 1, 31, 500, 700} {
				x := make([]float32, rows*n)
				for i := range x {
					x[i] = float32(rng.NormFloat64() * 20)
					if rows == 31 && rng.IntN(20) == 0 {
						x[i] = []float32{nan, inf, -inf, 0, 3e38, -3e38}[rng.IntN(6)]
					}
				}
				if rows == 31 {
					for i := range n {
						x[i] = -inf
					}
				}
				y, sums := make([]float32, len(x)), make([]float32, rows)
				softmaxLines(v, y, x, n)
				logSumExpLines(v, sums, x, n)
				over := append([]float32(nil), x...)
				softmaxLines(v, over, over, n)
				for r := range rows {
					row, want := x[r*n:][:n], make([]float32, n)
					vector.ScaledOf(v, want, want, 1, vector.ExpSumOf(v, want, row, vector.MaxOf(v, row)))
					for i := range want {
						if !same(y[r*n+i], want[i]) || !same(over[r*n+i], want[i]) {
							t.Fatalf("%s: softmax of %v is %v, in place %v, want %v", v, row, y[r*n:][:n], over[r*n:][:n], want)
						}
					}
					m := finite(vector.MaxOf(v, row))
					if want := float32(float64(m) + math.Log(vector.ExpTotalOf(v, row, m))); !same(sums[r], want) {
						t.Fatalf("%s: logsumexp of %v is %v, want %v", v, row, sums[r], want)
					}
				}
			}
		}
	}
}
