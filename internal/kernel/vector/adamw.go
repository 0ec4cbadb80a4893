package vector

import (
	"math"

	"github.com/gomoe/gomoe/internal/kernel"
)

// AdamW is one update of a parameter by Loshchilov and Hutter's "Decoupled weight
// decay regularization" (2017). C1 and C2 are 1-B1ˢ and 1-B2ˢ in step s:
//
//	m' = B1 m + (1-B1) Scale g,   v' = B2 v + (1-B2) (Scale g)²
//	p' = p - LR (m'/C1 / (√(v'/C2) + Eps) + Decay p)
type AdamW struct{ B1, B2, C1, C2, Scale, LR, Eps, Decay float64 }

// AdamWStep sets p2, m2 and v2 to p', m' and v'. All slices have the same length, and each
// result may be written over its argument. Everything is computed in float64, without
// fusing products and sums, and rounded once. The bits are the same with all kernels.
func AdamWStep[T kernel.Float](a AdamW, p2, m2, v2, p, m, v, g []T) {
	adamWOf(kernel.VectorsOf[T](), a, p2, m2, v2, p, m, v, g)
}

func adamWOf[T kernel.Float](vec kernel.Kind, a AdamW, p2, m2, v2, p, m, v, g []T) {
	n, a1, a2 := len(p), 1-a.B1, 1-a.B2
	p2, m2, v2, m, v, g = p2[:n], m2[:n], v2[:n], m[:n], v[:n], g[:n]
	if has(vec, loopAdamW) {
		t := vectorArgs{wide: [10]float64{a.B1, a1, a.B2, a2, a.Scale, a.C1, a.C2, a.Eps, a.Decay, a.LR}}
		each(vec, loopAdamW, &t, 0, [3][]float32{kernel.Float32s(p2), kernel.Float32s(m2), kernel.Float32s(v2)}, [4][]float32{kernel.Float32s(p), kernel.Float32s(m), kernel.Float32s(v), kernel.Float32s(g)})
		return
	}
	for i := range n {
		x, grad := float64(p[i]), a.Scale*float64(g[i])
		m := float64(a.B1*float64(m[i])) + float64(a1*grad)
		v := float64(a.B2*float64(v[i])) + float64(float64(a2*grad)*grad)
		p2[i] = T(x - float64(a.LR*(m/a.C1/(math.Sqrt(v/a.C2)+a.Eps)+float64(a.Decay*x))))
		m2[i], v2[i] = T(m), T(v)
	}
}
