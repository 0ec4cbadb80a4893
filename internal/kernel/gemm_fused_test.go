package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// The fused products have the bits of the products and loops that they join.
func TestFused(t *testing.T) {
	t.Run("f32", testFused[float32])
	t.Run("f64", testFused[float64])
}

func testFused[T Float](t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for _, c := range []struct{ m, n, k int }{
		{0, 5, 3}, {1, 1, 1}, {3, 17, 5}, {5, 50, 300}, {20, 97, 64}, {130, 200, 33}, {700, 130, 20}, {150, 40, 3000}, {1500, 49, 9}, {4, 3000, 8},
	} {
		for _, transposed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%dx%dx%d/%v", c.m, c.n, c.k, transposed), func(t *testing.T) {
				matrix := func() Matrix[T] {
					if transposed {
						return Matrix[T]{normals[T](r, c.n*c.k), 1, c.k}
					}
					return Matrix[T]{normals[T](r, c.k*c.n), c.n, 1}
				}
				b, d := matrix(), matrix()
				b.X[len(b.X)/2] = T(math.NaN())
				product := func(x []T, w Matrix[T]) []T {
					y := make([]T, c.m*c.n)
					Gemm(c.m, c.n, c.k, x, c.k, 1, w.X, w.Row, w.Col, y, c.n, false)
					return y
				}
				dirty := func() []T { return normals[T](r, c.m*c.n) }
				x, x2 := normals[T](r, c.m*c.k), normals[T](r, c.m*c.k)
				g, u := product(x, b), product(x, d)

				h, kg, ku, kh := dirty(), dirty(), dirty(), dirty()
				want := make([]T, c.m*c.n)
				SwiGLU(want, g, u)
				GemmSwiGLU(c.m, c.n, c.k, Left[T]{X: x, Row: c.k}, b, d, nil, nil, h)
				GemmSwiGLU(c.m, c.n, c.k, Left[T]{X: x, Row: c.k}, b, d, kg, ku, kh)
				// The same rows in another order, with something behind each.
				at, row := make([]int32, c.m), c.k+3
				spread := normals[T](r, c.m*row)
				for i, j := range r.Perm(c.m) {
					at[i] = int32(j)
					copy(spread[j*row:], x[i*c.k:(i+1)*c.k])
				}
				gathered := dirty()
				GemmSwiGLU(c.m, c.n, c.k, Left[T]{spread, row, at}, b, d, nil, nil, gathered)
				sameBits(t, "h of gathered rows", gathered, want)
				sameBits(t, "h", h, want)
				sameBits(t, "h beside g and u", kh, want)
				sameBits(t, "g", kg, g)
				sameBits(t, "u", ku, u)

				dg, du, wg, wu := dirty(), dirty(), dirty(), dirty()
				SwiGLUGrad(wg, wu, g, u, product(x2, b))
				GemmSwiGLUGrad(c.m, c.n, c.k, x2, b, g, u, dg, du)
				sameBits(t, "dg", dg, wg)
				sameBits(t, "du", du, wu)

				y, sum := dirty(), product(x, b)
				for i, v := range product(x2, d) {
					sum[i] += v
				}
				GemmSum(c.m, c.n, c.k, x, b, x2, d, y)
				sameBits(t, "y", y, sum)
			})
		}
	}
}
