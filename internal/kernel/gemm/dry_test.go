package gemm

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// needSizes has few rows and many, columns that fill tiles and do not, and depths
// below and beyond all blocks.
func needSizes() [][3]int {
	sizes := [][3]int{{1, 64, 64}, {1, 3000, 700}, {4, 2100, 300}, {3, 40, 2100}, {7, 97, 33}, {8, 1056, 513}, {16, 200, 100}, {17, 64, 64}, {128, 512, 300}, {129, 1100, 1030}, {300, 50, 2050}, {1100, 100, 2100}}
	r := rand.New(rand.NewPCG(11, 12))
	for range 25 {
		sizes = append(sizes, [3]int{1 + r.IntN(200), 1 + r.IntN(400), 1 + r.IntN(700)})
	}
	return sizes
}

// A dry run of a product counts what the product takes, with all kernels.
func TestDryProducts(t *testing.T) {
	for _, ks := range halfKernels() {
		for _, c := range needSizes() {
			for _, transposed := range []bool{false, true} {
				for _, panels := range []bool{false, true} {
					m, n, k := c[0], c[1], c[2]
					if (ks.name == "model" || testing.Short()) && m*n*k > modelled/4 {
						continue
					}
					what := fmt.Sprintf("%s %dx%dx%d %v %v", ks.name, m, n, k, transposed, panels)
					dryFloats[float32](t, "f32 "+what, ks, m, n, k, transposed, panels)
					dryFloats[float64](t, "f64 "+what, ks, m, n, k, transposed, panels)
					dryHalves[array.Brain, array.Brain](t, "bf16 "+what, ks, m, n, k, transposed, panels)
					dryHalves[array.Brain, float32](t, "bf16 to f32 "+what, ks, m, n, k, transposed, panels)
					dryHalves[array.Half, array.Half](t, "f16 "+what, ks, m, n, k, transposed, panels)
				}
			}
		}
	}
}

func dryMatrix[E Number](t *testing.T, ks kernels, n, k int, transposed, panels bool) Matrix[E] {
	b := Matrix[E]{X: make([]E, n*k), Row: n, Col: 1}
	if transposed {
		b.Row, b.Col = 1, k
	}
	if panels && panelBytes[E](ks, k, n, transposed) > 0 {
		b.Panels = packed(t, ks, b, k, n)
	}
	return b
}

func dryFloats[T float32 | float64](t *testing.T, what string, ks kernels, m, n, k int, transposed, panels bool) {
	b, s := dryMatrix[T](t, ks, n, k, transposed, panels), ks.set(unsafe.Sizeof(T(0)))
	w, d := new(Workspace[T]), new(kernel.Dry)
	w.multiply(s, m, n, k, make([]T, m*k), k, 1, b.X, b.Row, b.Col, b.Panels, make([]T, m*n), n, false)
	workspaceOf[T](d).multiply(s, m, n, k, nil, k, 1, nil, b.Row, b.Col, b.Panels, nil, n, false)
	numbers.SameMemory(t, what, d.Taken(), w)
}

func dryHalves[E Half, R interface {
	Result
	Number
}](t *testing.T, what string, ks kernels, m, n, k int, transposed, panels bool) {
	b, d := dryMatrix[E](t, ks, n, k, transposed, panels), new(kernel.Dry)
	kept := inProducts(func() {
		multiplyHalf(nil, ks, m, n, k, make([]E, m*k), k, 1, b, make([]R, m*n), n, false)
	})
	b.X = nil
	multiplyHalf(d, ks, m, n, k, nil, k, 1, b, []R(nil), n, false)
	numbers.SameMemory(t, what, d.Taken(), kept...)
}

// inProducts returns the workspaces of the products that f makes.
func inProducts(f func()) (kept []any) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that what goes to a pool comes back
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	pools := []*sync.Pool{&halfWorkspaces, &spaces, pool[float32](), pool[float64]()}
	for _, p := range pools {
		for p.Get() != nil {
		}
	}
	f()
	for _, p := range pools {
		if w := p.Get(); w != nil {
			kept = append(kept, w)
		}
	}
	return kept
}

// The same for fused products and the products that they are made of.
func TestDryFusedProducts(t *testing.T) {
	dryFused[float32](t)
	dryFused[float64](t)
	dryFused[array.Brain](t)
	dryFused[array.Half](t)
}

func dryFused[E Number](t *testing.T) {
	sizes := [][3]int{{1, 7, 3}, {100, 300, 64}, {130, 700, 300}, {500, 1100, 40}, {900, 97, 600}}
	if testing.Short() { // the large ones take minutes where instructions are emulated
		sizes = sizes[:2]
	}
	for _, c := range sizes {
		m, n, k := c[0], c[1], c[2]
		for name, do := range map[string]func(d *kernel.Dry, b Matrix[E], x []E, at []int32, y func() []E){
			"swiglu": func(d *kernel.Dry, b Matrix[E], x []E, at []int32, y func() []E) {
				SwiGLU(d, m, n, k, Left[E]{X: x, Row: k}, b, b, nil, nil, y())
			},
			"swiglu, kept": func(d *kernel.Dry, b Matrix[E], x []E, at []int32, y func() []E) {
				SwiGLU(d, m, n, k, Left[E]{X: x, Row: k}, b, b, y(), y(), y())
			},
			"swiglu, gathered": func(d *kernel.Dry, b Matrix[E], x []E, at []int32, y func() []E) {
				SwiGLU(d, m, n, k, Left[E]{X: x, Row: k, At: at}, b, b, nil, nil, y())
			},
			"gradient": func(d *kernel.Dry, b Matrix[E], x []E, at []int32, y func() []E) {
				SwiGLUGrad(d, m, n, k, x, b, y(), y(), y(), y())
			},
			"sum": func(d *kernel.Dry, b Matrix[E], x []E, at []int32, y func() []E) { Sum(d, m, n, k, x, b, x, b, y()) },
		} {
			b, d := Matrix[E]{Row: n, Col: 1}, new(kernel.Dry)
			do(d, b, nil, []int32{}, func() []E { return []E{} })
			b.X = make([]E, n*k)
			kept := inProducts(func() { do(nil, b, make([]E, m*k), make([]int32, m), func() []E { return make([]E, m*n) }) })
			numbers.SameMemory(t, fmt.Sprintf("%s %T %v", name, *new(E), c), d.Taken(), kept...)
		}
	}
}
