package vector

import (
	"math"

	"github.com/gomoe/gomoe/internal/kernel"
)

// This file has the operations of attention in blocks on rows of scores, using the loops
// of a kind.

// ScaleMax multiplies x by scale, returning the largest of top and the products. It
// returns NaN if one of these is NaN.
func ScaleMax[T kernel.Float](v kernel.Kind, x []T, scale, top T) T {
	if has(v, loopScaleMax) {
		t := vectorArgs{max: noMax(float32(top)), largest: float32(top), c: [3]float32{float32(scale)}}
		each(v, loopScaleMax, &t, float32(math.NaN()), [3][]float32{kernel.Float32s(x)}, [4][]float32{kernel.Float32s(x)})
		return T(t.largest)
	}
	for i := range x {
		x[i] *= scale
		top = max(top, x[i])
	}
	return top
}

// AddExp replaces x by exp(x - shift), returning sum plus the sum of the new x.
func AddExp[T kernel.Float](v kernel.Kind, x []T, shift, sum T) T {
	if has(v, loopScaleMax) {
		return sum + T(ExpSumOf(v, x, x, shift))
	}
	for j := range x {
		x[j] = T(math.Exp(float64(x[j] - shift)))
		sum += x[j]
	}
	return sum
}

// Scale multiplies x by c.
func Scale[T kernel.Float](v kernel.Kind, x []T, c T) {
	if has(v, loopScaleMax) {
		t := vectorArgs{c: [3]float32{float32(c)}}
		each(v, loopScaleMax, &t, 0, [3][]float32{kernel.Float32s(x)}, [4][]float32{kernel.Float32s(x)})
		return
	}
	for j := range x {
		x[j] *= c
	}
}

// AttentionGrad replaces the scores s by p = exp(scale·s - lse), and d by
// scale·p·(d - delta).
func AttentionGrad[T kernel.Float](v kernel.Kind, s, d []T, scale, lse, delta T) {
	d = d[:len(s)]
	if has(v, loopAttentionGrad) {
		t := vectorArgs{c: [3]float32{float32(scale), float32(lse), float32(delta)}}
		each(v, loopAttentionGrad, &t, 0, [3][]float32{kernel.Float32s(s), kernel.Float32s(d)}, [4][]float32{kernel.Float32s(s), kernel.Float32s(d)})
		return
	}
	for j := range s {
		s[j] = T(math.Exp(float64(T(s[j]*scale) - lse)))
		d[j] = scale * s[j] * (d[j] - delta)
	}
}
