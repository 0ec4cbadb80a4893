package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/array"
)

// halfKernels returns the kernels of this processor, and those whose products of
// bf16 are models of instructions that it may not have, without and with the
// copies in assembly.
func halfKernels() []kernels {
	have := available()
	dot := &halfSet{name: "vdpbf16ps", step: dotStep, deep: dotDeep, rows: 128, most: 8, wide: tileVecs * pairLanes}
	amx := &halfSet{name: "tdpbf16ps", step: amxStep, deep: amxDeep, rows: 128, most: 2 * squareRows, wide: 2 * pairLanes, squares: true}
	for _, s := range []*halfSet{dot, amx} {
		for _, s := range []*halfSet{s, withCopies(*s)} {
			have = append(have, kernels{name: "model", f32: have[0].f32, bf16: modelTiles(s)})
		}
	}
	return have
}

// halfProduct is a problem with 16-bit arguments.
type halfProduct[E Half, R Result] struct {
	m, n, k            int
	ars, acs, brs, bcs int
	ldc                int
	acc                bool
	a, b               []E
	c                  []R
}

func (p halfProduct[E, R]) String() string {
	return fmt.Sprintf("%T %T m=%d n=%d k=%d A=%d,%d B=%d,%d ldc=%d acc=%v", p.a, p.c, p.m, p.n, p.k, p.ars, p.acs, p.brs, p.bcs, p.ldc, p.acc)
}

func narrowed[R Result](x []float32) []R {
	y := make([]R, len(x))
	if z, ok := any(y).([]float32); ok {
		copy(z, x)
	}
	narrow(y, x)
	return y
}

func widened[R Result](x []R) []float32 {
	y := make([]float32, len(x))
	if z, ok := any(x).([]float32); ok {
		copy(y, z)
	}
	widen(y, x)
	return y
}

func newHalfProduct[E Half, R Result](r *rand.Rand, m, n, k int) halfProduct[E, R] {
	p := newProduct[float32](r, m, n, k)
	return halfProduct[E, R]{m, n, k, p.ars, p.acs, p.brs, p.bcs, p.ldc, p.acc, narrowed[E](p.a), narrowed[E](p.b), narrowed[R](p.c)}
}

// by returns all of C as the kernels leave it.
func (p halfProduct[E, R]) by(k kernels) []float32 {
	c := append([]R(nil), p.c...)
	multiplyHalf(k, p.m, p.n, p.k, p.a, p.ars, p.acs, p.b, p.brs, p.bcs, c, p.ldc, p.acc)
	return widened(c)
}

// want returns C by the contract of the kernels.
func (p halfProduct[E, R]) want(k kernels) []float32 {
	w := product[float32]{p.m, p.n, p.k, p.ars, p.acs, p.brs, p.bcs, p.ldc, p.acc, widened(p.a), widened(p.b), widened(p.c)}
	brain, ok := any(p).(interface {
		pairs(i, q, j int) (x, y uint32)
	})
	if _, is := any(p.a).([]array.Brain); !ok || !is || k.bf16 == nil {
		c := w.by(k)
		return widened(narrowed[R](c))
	}
	c := append([]float32(nil), w.c...)
	for i := range p.m {
		for j := range p.n {
			y := &c[i*p.ldc+j]
			if !p.acc {
				*y = 0
			}
			if k.bf16.squares {
				for q := 0; 2*q < p.k; q += squarePairs {
					*y = tileModel(*y, squarePairs, func(t int) (uint32, uint32) { return brain.pairs(i, q+t, j) })
				}
				continue
			}
			for k0 := 0; k0 < p.k; k0 += dotDeep {
				s := float32(0)
				for q := k0; q < min(k0+dotDeep, p.k); q += 2 {
					x, z := brain.pairs(i, q/2, j)
					s = dotModel(s, x, z)
				}
				*y += s
			}
		}
	}
	return widened(narrowed[R](c))
}

// pairs returns pair q of row i of A and of column j of B.
func (p halfProduct[E, R]) pairs(i, q, j int) (x, y uint32) {
	a, b := any(p.a).([]array.Brain), any(p.b).([]array.Brain)
	if 2*q < p.k {
		x, y = uint32(a[i*p.ars+2*q*p.acs]), uint32(b[2*q*p.brs+j*p.bcs])
	}
	if 2*q+1 < p.k {
		x, y = x|uint32(a[i*p.ars+(2*q+1)*p.acs])<<16, y|uint32(b[(2*q+1)*p.brs+j*p.bcs])<<16
	}
	return x, y
}

// Every kernel's result is the contract's, bit for bit, and nothing beside C is
// written.
func TestGemmHalfIsItsContract(t *testing.T) {
	t.Run("bf16", halfIsItsContract[array.Brain, array.Brain])
	t.Run("bf16 to f32", halfIsItsContract[array.Brain, float32])
	t.Run("f16", halfIsItsContract[array.Half, array.Half])
	t.Run("f16 to f32", halfIsItsContract[array.Half, float32])
	t.Run("bf16 to f16", halfIsItsContract[array.Brain, array.Half])
}

func halfIsItsContract[E Half, R Result](t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	sizes := append([][3]int{
		{1, 40, 513}, {2, 70, 1030}, {3, 33, 511}, {4, 96, 512}, {1, 600, 3}, {17, 50, 2100}, {40, 33, 1025}, {33, 17, 33}, {16, 16, 32}, {64, 96, 64}, {48, 32, 31}, {9, 1100, 70}, {300, 20, 40},
	}, gemmSizes...)
	for range 60 {
		sizes = append(sizes, [3]int{r.IntN(71), r.IntN(71), r.IntN(71)})
	}
	for range 2 { // the layouts differ
		for _, s := range sizes {
			p := newHalfProduct[E, R](r, s[0], s[1], s[2])
			for _, k := range halfKernels() {
				sameBits(t, k.name+" "+k.half()+" "+p.String(), p.by(k), p.want(k))
			}
		}
	}
}
