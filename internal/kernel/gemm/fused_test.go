package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// Fused products have the bits of the products and loops that they join.
func TestFused(t *testing.T) {
	t.Run("f32", func(t *testing.T) { testFused(t, separate[float32]()) })
	t.Run("f64", func(t *testing.T) { testFused(t, separate[float64]()) })
	t.Run("bf16", func(t *testing.T) { testFused(t, separateHalf[array.Brain]()) })
	t.Run("f16", func(t *testing.T) { testFused(t, separateHalf[array.Half]()) })
}

// apart has the steps that fused products join. Each is done to whole arrays.
type apart[E Number] struct {
	arithmetic[E]
	from func(x []float32) []E
	wide func(x E) float64
}

func separate[T float32 | float64]() apart[T] {
	return apart[T]{
		*floatArithmetic[T](),
		func(x []float32) []T {
			y := make([]T, len(x))
			for i, v := range x {
				y[i] = T(v)
			}
			return y
		},
		func(x T) float64 { return float64(x) },
	}
}

func separateHalf[E Half]() apart[E] {
	wide := func(x []E) []float32 {
		y := make([]float32, len(x))
		widen(y, x)
		return y
	}
	return apart[E]{
		arithmetic[E]{MultiplyHalfPanels[E, E],
			func(_ *space, y, gate, up []E) {
				g := wide(gate)
				vector.SwiGLU(g, g, wide(up))
				narrow(y, g)
			},
			func(_ *space, dgate, dup, gate, up, ct []E) {
				g, u := wide(gate), wide(up)
				vector.SwiGLUGrad(g, u, wide(gate), wide(up), wide(ct))
				narrow(dgate, g)
				narrow(dup, u)
			},
			func(_ *space, z, x, y []E) {
				a, b := wide(x), wide(y)
				for i := range a {
					a[i] += b[i]
				}
				narrow(z, a)
			},
		},
		func(x []float32) []E {
			y := make([]E, len(x))
			narrow(y, x)
			return y
		},
		func(x E) float64 { return float64(wide([]E{x})[0]) },
	}
}

func testFused[E Number](t *testing.T, do apart[E]) {
	r := rand.New(rand.NewPCG(3, 1))
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
	for _, c := range []struct{ m, n, k int }{
		{0, 5, 3}, {1, 1, 1}, {3, 17, 5}, {5, 50, 300}, {20, 97, 64}, {130, 200, 33}, {700, 130, 20}, {150, 40, 3000}, {1500, 49, 9}, {4, 3000, 8},
	} {
		for _, transposed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%dx%dx%d/%v", c.m, c.n, c.k, transposed), func(t *testing.T) {
				matrix := func() Matrix[E] {
					if transposed {
						return Matrix[E]{draw(c.n * c.k), 1, c.k, Panels{}}
					}
					return Matrix[E]{draw(c.k * c.n), c.n, 1, Panels{}}
				}
				b, d := matrix(), matrix()
				b.X[len(b.X)/2] = do.from([]float32{float32(math.NaN())})[0]
				product := func(x []E, w Matrix[E]) []E {
					y := make([]E, c.m*c.n)
					do.product(nil, c.m, c.n, c.k, x, c.k, w, y, c.n)
					return y
				}
				dirty := func() []E { return draw(c.m * c.n) }
				x, x2 := draw(c.m*c.k), draw(c.m*c.k)
				g, u := product(x, b), product(x, d)

				h, kg, ku, kh := dirty(), dirty(), dirty(), dirty()
				want := make([]E, c.m*c.n)
				do.swiglu(nil, want, g, u)
				SwiGLU(nil, c.m, c.n, c.k, Left[E]{X: x, Row: c.k}, b, d, nil, nil, h)
				SwiGLU(nil, c.m, c.n, c.k, Left[E]{X: x, Row: c.k}, b, d, kg, ku, kh)
				// The same rows in another order, with something behind each.
				at, row := make([]int32, c.m), c.k+3
				spread := draw(c.m * row)
				for i, j := range r.Perm(c.m) {
					at[i] = int32(j)
					copy(spread[j*row:], x[i*c.k:(i+1)*c.k])
				}
				gathered := dirty()
				SwiGLU(nil, c.m, c.n, c.k, Left[E]{spread, row, at}, b, d, nil, nil, gathered)
				same(t, "h of gathered rows", gathered, want)
				same(t, "h", h, want)
				same(t, "h beside g and u", kh, want)
				same(t, "g", kg, g)
				same(t, "u", ku, u)

				dg, du, wg, wu := dirty(), dirty(), dirty(), dirty()
				do.swigluGrad(nil, wg, wu, g, u, product(x2, b))
				SwiGLUGrad(nil, c.m, c.n, c.k, x2, b, g, u, dg, du)
				same(t, "dg", dg, wg)
				same(t, "du", du, wu)

				y, sum := dirty(), make([]E, c.m*c.n)
				do.add(nil, sum, product(x, b), product(x2, d))
				Sum(nil, c.m, c.n, c.k, x, b, x2, d, y)
				same(t, "y", y, sum)
			})
		}
	}
}
