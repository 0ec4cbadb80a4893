package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// Products of rows behind an index have the bits of products of copies in order.
func TestGathered(t *testing.T) {
	t.Run("f32", func(t *testing.T) { testGathered(t, separate[float32]()) })
	t.Run("f64", func(t *testing.T) { testGathered(t, separate[float64]()) })
	t.Run("bf16", func(t *testing.T) { testGathered(t, separateHalf[array.Brain]()) })
	t.Run("f16", func(t *testing.T) { testGathered(t, separateHalf[array.Half]()) })
}

func testGathered[E Number](t *testing.T, do apart[E]) {
	r := rand.New(rand.NewPCG(3, 2))
	draw := func(n int) []E { return do.from(numbers.Normals[float32](r, n)) }
	same := func(t *testing.T, what string, got, want []E) {
		t.Helper()
		wide := func(x []E) []float64 {
			y := make([]float64, len(x))
			for i, v := range x {
				y[i] = do.wide(v)
			}
			return y
		}
		numbers.SameBits(t, what, wide(got), wide(want))
	}
	// gathered returns rows in another order, some several times, with something behind each,
	// and the same rows in order.
	gathered := func(rows, cols int) (Left[E], []E) {
		there := max(1, rows*2/3)
		l := Left[E]{draw(there * (cols + 3)), cols + 3, make([]int32, rows)}
		order := make([]E, 0, rows*cols)
		for i := range l.At {
			l.At[i] = int32(r.IntN(there))
			order = append(order, l.X[int(l.At[i])*l.Row:][:cols]...)
		}
		return l, order
	}
	for _, c := range []struct{ m, n, k int }{
		{0, 5, 3}, {1, 1, 1}, {3, 17, 5}, {70, 90, 300}, {130, 200, 33}, {700, 130, 20}, {150, 70, 9000}, {4, 300, 8}, {5, 4, 0},
	} {
		t.Run(fmt.Sprintf("%dx%dx%d", c.m, c.n, c.k), func(t *testing.T) {
			x, order := gathered(c.m, c.k)
			b := Matrix[E]{draw(c.k * c.n), c.n, 1, Panels{}}
			got, want := draw(c.m*c.n), make([]E, c.m*c.n)
			do.product(nil, c.m, c.n, c.k, order, c.k, b, want, c.n)
			Product(nil, c.m, c.n, c.k, x, b, got)
			same(t, "product", got, want)

			// Outer of some of the columns of x, with either side or both behind an index.
			cut := c.m / 3
			x, xs := gathered(c.k, c.m)
			y, ys := gathered(c.k, c.n)
			apart := func(rows []E, cols int) Left[E] { return Left[E]{X: rows, Row: cols} }
			want = make([]E, (c.m-cut)*c.n)
			if c.k > 0 {
				MultiplyPanels(nil, c.m-cut, c.n, c.k, xs[cut:], 1, c.m, Matrix[E]{ys, c.n, 1, Panels{}}, want, c.n, false)
			}
			for _, side := range []struct{ x, y Left[E] }{{x, y}, {apart(xs, c.m), y}, {x, apart(ys, c.n)}} {
				got := draw((c.m - cut) * c.n)
				Outer(nil, c.m-cut, c.n, c.k, side.x, cut, side.y, got)
				same(t, "outer", got, want)
			}
		})
	}
}
