package gemm

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/kernel"
)

// taken compares what buffers have become with what was said that they would.
func taken(t *testing.T, what string, got, want kernel.Need) {
	t.Helper()
	for buf, bytes := range want {
		if _, ok := got[buf]; !ok && bytes > 0 {
			t.Fatalf("%s: %s is said to take %d bytes, and there is none", what, buf, bytes)
		}
	}
	for buf, bytes := range got {
		const line = 64
		if bytes < want[buf] || bytes > want[buf]+line {
			t.Fatalf("%s: %s takes %d bytes, and %d is what was said", what, buf, bytes, want[buf])
		}
	}
}

func (w *halfWorkspace) taken() kernel.Need {
	return kernel.Need{"half": sizeOf[halfWorkspace](), "half.a": 4 * int64(len(w.a)), "half.b": 4 * int64(len(w.b)), "half.c": 4 * int64(len(w.c)),
		"half.sums": 4 * int64(len(w.sums)), "half.pa": 4 * int64(len(w.pa)), "half.pb": 4 * int64(len(w.pb))}
}

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

// Workspaces grow to what is said of every product, on all kernels.
func TestNeedOfProducts(t *testing.T) {
	for _, ks := range halfKernels() {
		for _, c := range needSizes() {
			for _, transposed := range []bool{false, true} {
				for _, panels := range []bool{false, true} {
					m, n, k := c[0], c[1], c[2]
					if (ks.name == "model" || testing.Short()) && m*n*k > modelled/4 {
						continue
					}
					what := fmt.Sprintf("%s %dx%dx%d %v %v", ks.name, m, n, k, transposed, panels)
					needOfFloats[float32](t, "f32 "+what, ks, m, n, k, transposed, panels)
					needOfFloats[float64](t, "f64 "+what, ks, m, n, k, transposed, panels)
					needOfHalves[array.Brain, array.Brain](t, "bf16 "+what, ks, m, n, k, transposed, panels)
					needOfHalves[array.Brain, float32](t, "bf16 to f32 "+what, ks, m, n, k, transposed, panels)
					needOfHalves[array.Half, array.Half](t, "f16 "+what, ks, m, n, k, transposed, panels)
				}
			}
		}
	}
}

func needMatrix[E Number](t *testing.T, ks kernels, n, k int, transposed, panels bool) Matrix[E] {
	b := Matrix[E]{X: make([]E, n*k), Row: n, Col: 1}
	if transposed {
		b.Row, b.Col = 1, k
	}
	if panels && panelBytes[E](ks, k, n, transposed) > 0 {
		b.Panels = packed(t, ks, b, k, n)
	}
	return b
}

func needOfFloats[T float32 | float64](t *testing.T, what string, ks kernels, m, n, k int, transposed, panels bool) {
	w, b := new(Workspace[T]), needMatrix[T](t, ks, n, k, transposed, panels)
	w.multiply(ks.set(uintptr(sizeOf[T]())), m, n, k, make([]T, m*k), k, 1, b.X, b.Row, b.Col, b.Panels, make([]T, m*n), n, false)
	taken(t, what, w.Held(), gemmNeed[T, T](ks, m, n, k, transposed, panels))
}

func needOfHalves[E Half, R interface {
	Result
	Number
}](t *testing.T, what string, ks kernels, m, n, k int, transposed, panels bool) {
	w, b := &halfWorkspace{config: newTileConfig()}, needMatrix[E](t, ks, n, k, transposed, panels)
	multiplyHalfIn(w, ks, m, n, k, make([]E, m*k), k, 1, b, make([]R, m*n), n, false)
	want := gemmNeed[E, R](ks, m, n, k, transposed, panels)
	for _, buf := range []string{"f32", "f32.a", "f32.b", "f32.sums"} {
		delete(want, buf) // of a product of float32, which it is made of
	}
	taken(t, what, w.taken(), want)
}

// The same for fused products and the products that they are made of.
func TestNeedOfFusedProducts(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that what goes to a pool comes back
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	needOfFused[float32](t)
	needOfFused[float64](t)
	needOfFused[array.Brain](t)
	needOfFused[array.Half](t)
}

// inProducts returns what is in the workspaces of products that f makes.
func inProducts(f func()) kernel.Need {
	for _, p := range []*sync.Pool{&halfWorkspaces, pool[float32](), pool[float64]()} {
		for p.Get() != nil {
		}
	}
	f()
	need := kernel.Need{}
	if w, ok := halfWorkspaces.Get().(*halfWorkspace); ok {
		need = need.And(w.taken())
	}
	if w, ok := pool[float32]().Get().(*Workspace[float32]); ok {
		need = need.And(w.Held())
	}
	if w, ok := pool[float64]().Get().(*Workspace[float64]); ok {
		need = need.And(w.Held())
	}
	return need
}

func needOfFused[E Number](t *testing.T) {
	do := arithmeticOf[E]()
	for _, c := range [][3]int{{1, 7, 3}, {100, 300, 64}, {130, 700, 300}, {500, 1100, 40}, {900, 97, 600}} {
		m, n, k := c[0], c[1], c[2]
		b := Matrix[E]{X: make([]E, n*k), Row: n, Col: 1}
		x, y, at := make([]E, m*k), func() []E { return make([]E, m*n) }, make([]int32, m)
		for _, w := range []struct {
			name string
			do   func(s *space)
			need kernel.Need
		}{
			{"swiglu", func(s *space) { do.gemmSwiGLU(s, m, n, k, Left[E]{X: x, Row: k}, b, b, nil, nil, y()) }, SwiGLUNeed[E](m, n, k, false, false, false, false)},
			{"swiglu, kept", func(s *space) { do.gemmSwiGLU(s, m, n, k, Left[E]{X: x, Row: k}, b, b, y(), y(), y()) }, SwiGLUNeed[E](m, n, k, false, false, false, true)},
			{"swiglu, gathered", func(s *space) { do.gemmSwiGLU(s, m, n, k, Left[E]{X: x, Row: k, At: at}, b, b, nil, nil, y()) }, SwiGLUNeed[E](m, n, k, false, false, true, false)},
			{"gradient", func(s *space) { do.gemmSwiGLUGrad(s, m, n, k, x, b, y(), y(), y(), y()) }, SumNeed[E](m, n, k, false, false)},
			{"sum", func(s *space) { do.gemmSum(s, m, n, k, x, b, x, b, y()) }, SumNeed[E](m, n, k, false, false)},
		} {
			s := new(space)
			got, want := inProducts(func() { w.do(s) }), maps.Clone(w.need)
			got["fused"] = sizeOf[space]()
			for i, p := range s.pieces {
				got["fused."+string(rune('0'+i))] = 8 * int64(len(p))
			}
			for buf, bytes := range w.need {
				if strings.HasPrefix(buf, "fused") {
					want[buf] = roundUp8(bytes)
				}
			}
			taken(t, fmt.Sprint(w.name, " ", NameOf[E](), c), got, want)
		}
	}
}

func roundUp8(n int64) int64 { return (n + 7) / 8 * 8 }
