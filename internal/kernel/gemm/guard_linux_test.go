package gemm

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// No product touches what is behind the last element; if one did, this test would crash.
func TestGemmStaysInside(t *testing.T) {
	t.Run("f32", gemmStaysInside[float32])
	t.Run("f64", gemmStaysInside[float64])
}

func gemmStaysInside[T kernel.Float](t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	for range 200 {
		p := newProduct[T](r, r.IntN(20), r.IntN(110), r.IntN(40))
		want := p.want(true)
		p.a, p.b, p.c = numbers.AtGuard(t, p.a), numbers.AtGuard(t, p.b), numbers.AtGuard(t, p.c)
		for _, k := range available() {
			c := append([]T(nil), p.c...)
			w := workspaceOf[T](nil)
			w.multiply(k.set(unsafe.Sizeof(T(0))), p.m, p.n, p.k, p.a, p.ars, p.acs, p.b, p.brs, p.bcs, Panels{}, p.c, p.ldc, p.acc)
			w.release()
			if k.f32 != nil {
				numbers.SameBits(t, k.name+" "+p.String(), p.c, want)
			}
			copy(p.c, c)
		}
	}
}

// The same for 16-bit numbers.
func TestGemmHalfStaysInside(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 34))
	for range 150 {
		p := newHalfProduct[array.Brain, array.Brain](r, r.IntN(40), r.IntN(110), r.IntN(70))
		c := p.c
		p.a, p.b, p.c = numbers.AtGuard(t, p.a), numbers.AtGuard(t, p.b), numbers.AtGuard(t, p.c)
		for _, k := range halfKernels() {
			if k.name == "model" && p.m*p.n*p.k > modelled/4 {
				continue
			}
			want := halfProduct[array.Brain, array.Brain]{p.m, p.n, p.k, p.ars, p.acs, p.brs, p.bcs, p.ldc, p.acc, p.a, p.b, c}.by(k)
			multiplyHalf(nil, k, p.m, p.n, p.k, p.a, p.ars, p.acs, Matrix[array.Brain]{X: p.b, Row: p.brs, Col: p.bcs}, p.c, p.ldc, p.acc)
			numbers.SameBits(t, k.name+" "+k.half()+" "+p.String(), widened(p.c), want)
			copy(p.c, c)
		}
	}
}
