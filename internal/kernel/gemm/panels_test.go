package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// guarded returns n bytes that begin 8 bytes behind a cache line, and a function that
// reports whether what is behind them is unchanged.
func guarded(n int) (mem []byte, intact func() bool) {
	words := make([]uint64, n/8+40)
	at := 0
	for uintptr(unsafe.Pointer(&words[at]))%64 != 8 {
		at++
	}
	all := unsafe.Slice((*byte)(unsafe.Pointer(&words[at])), n+64)
	for i := range all {
		all[i] = 0x7f // garbage where panels are not written
	}
	return all[:n:n], func() bool {
		for _, b := range all[n:] {
			if b != 0x7f {
				return false
			}
		}
		return true
	}
}

// packed returns panels of b, made in two pieces if they are wide enough.
func packed[E Number](t *testing.T, ks kernels, b Matrix[E], k, n int) Panels {
	t.Helper()
	mem, intact := guarded(panelBytes[E](ks, k, n, true))
	p := PanelsIn(mem, k, n)
	cut := n / 2 / PanelUnit * PanelUnit
	packPanels(ks, p, b, cut, n)
	packPanels(ks, p, b, 0, cut)
	if !intact() {
		t.Fatalf("%s: panels of %dx%d were written past their end", ks.name, k, n)
	}
	return p
}

// Products with panels have the bits of products without, whole and cut into pieces of
// columns, with all kernels. They do not read the matrix that the panels are a copy of.
func TestPanels(t *testing.T) {
	t.Run("f32", panelsOfFloats[float32])
	t.Run("f64", panelsOfFloats[float64])
	t.Run("bf16", panelsOfBrains)
}

func panelSizes(r *rand.Rand, n int) [][3]int {
	sizes := [][3]int{{1, 1, 1}, {3, 300, 520}, {17, 49, 600}, {130, 193, 300}, {5, 1200, 33}, {200, 97, 1030}, {40, 96, 2100}}
	for range n {
		sizes = append(sizes, [3]int{1 + r.IntN(40), 1 + r.IntN(300), 1 + r.IntN(600)})
	}
	return sizes
}

func panelsOfFloats[T float32 | float64](t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range panelSizes(r, 25) {
		p := newProduct[T](r, c[0], c[1], c[2])
		for _, ks := range available() {
			if panelBytes[T](ks, p.k, p.n, true) == 0 {
				continue
			}
			want, got := p.by(ks), append([]T(nil), p.c...)
			panels := packed(t, ks, Matrix[T]{X: p.b, Row: p.brs, Col: p.bcs}, p.k, p.n)
			b := make([]T, len(p.b))
			w := workspaceOf[T](nil)
			for j := 0; j < p.n; {
				jn := min(PanelUnit*(1+r.IntN(3)), p.n-j)
				w.multiply(ks.set(unsafe.Sizeof(T(0))), p.m, jn, p.k, p.a, p.ars, p.acs, b[j*p.bcs:], p.brs, p.bcs, panels.From(j), got[j:], p.ldc, p.acc)
				j += jn
			}
			w.release()
			numbers.SameBits(t, fmt.Sprint(ks.name, " ", p), got, want)
		}
	}
}

func panelsOfBrains(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range panelSizes(r, 25) {
		p := newHalfProduct[array.Brain, array.Brain](r, c[0], c[1], c[2])
		for _, ks := range halfKernels() {
			if panelBytes[array.Brain](ks, p.k, p.n, false) == 0 || ks.name == "model" && p.m*p.n*p.k > modelled/4 {
				continue
			}
			want, got := p.by(ks), append([]array.Brain(nil), p.c...)
			panels := packed(t, ks, Matrix[array.Brain]{X: p.b, Row: p.brs, Col: p.bcs}, p.k, p.n)
			b := make([]array.Brain, len(p.b))
			for j := 0; j < p.n; {
				jn := min(PanelUnit*(1+r.IntN(3)), p.n-j)
				multiplyHalf(nil, ks, p.m, jn, p.k, p.a, p.ars, p.acs, Matrix[array.Brain]{b[j*p.bcs:], p.brs, p.bcs, panels.From(j)}, got[j:], p.ldc, p.acc)
				j += jn
			}
			numbers.SameBits(t, fmt.Sprint(ks.name, " ", p.m, "x", p.n, "x", p.k), widened(got), want)
		}
	}
}

// Pieces that cut a panel do not use panels. Their bits are the same.
func TestPanelsCut(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	p := newHalfProduct[array.Brain, array.Brain](r, 30, 200, 90)
	for _, ks := range halfKernels() {
		if panelBytes[array.Brain](ks, p.k, p.n, false) == 0 {
			continue
		}
		want, got := p.by(ks), append([]array.Brain(nil), p.c...)
		right := Matrix[array.Brain]{X: p.b, Row: p.brs, Col: p.bcs}
		right.Panels = packed(t, ks, right, p.k, p.n)
		multiplyHalf(nil, ks, p.m, 70, p.k, p.a, p.ars, p.acs, right, got, p.ldc, p.acc)
		multiplyHalf(nil, ks, p.m, 130, p.k, p.a, p.ars, p.acs, right.from(70), got[70:], p.ldc, p.acc)
		numbers.SameBits(t, ks.name, widened(got), want)
	}
}
