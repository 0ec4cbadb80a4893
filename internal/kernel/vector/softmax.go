package vector

import (
	"math"

	"github.com/gomoe/gomoe/internal/kernel"
)

// Max returns the largest element of x, or -Inf if there is none. If an element is NaN,
// the loop in Go returns NaN, but the loops over vectors ignore it. With both, one of
// exp(x - Max) is NaN, and so is their sum.
func Max[T kernel.Float](x []T) T { return MaxOf(kernel.VectorsOf[T](), x) }

// MaxOf is Max by the loops of v.
func MaxOf[T kernel.Float](v kernel.Kind, x []T) T {
	top := T(math.Inf(-1))
	if has(v, loopMax) {
		t := vectorArgs{max: noMax(float32(top)), largest: float32(top)}
		each(v, loopMax, &t, float32(top), [3][]float32{}, [4][]float32{kernel.Float32s(x)})
		return T(t.largest)
	}
	for _, x := range x {
		top = max(top, x)
	}
	return top
}

func noMax(top float32) (lanes [kernel.Lanes]float32) {
	for i := range lanes {
		lanes[i] = top
	}
	return lanes
}

// ExpSum sets y = exp(x - shift), which may be written over x, returning the sum of y in
// float64. The order of addition depends on the length alone. The loop in Go adds from
// the first to the last. The loops over vectors of float32 keep 16 partial sums: sum k
// adds the elements k, k+16, k+32 and so on. Then sums 8 apart are added, then sums 4, 2
// and 1 apart.
//
// The loop in Go, for float64 and with the portable kernels, adds the powers before
// rounding them. The loops over vectors add rounded powers, and also round the difference
// x - shift, which is a relative error of up to 2⁻²⁴ in the exponent.
func ExpSum[T kernel.Float](y, x []T, shift T) float64 {
	return ExpSumOf(kernel.VectorsOf[T](), y, x, shift)
}

// ExpSumOf is ExpSum by the loops of v.
func ExpSumOf[T kernel.Float](v kernel.Kind, y, x []T, shift T) float64 {
	y = y[:len(x)]
	if has(v, loopExpSum) {
		t := vectorArgs{c: [3]float32{float32(shift)}}
		each(v, loopExpSum, &t, float32(math.Inf(-1)), [3][]float32{kernel.Float32s(y)}, [4][]float32{kernel.Float32s(x)})
		return t.total
	}
	sum := 0.0
	for i, x := range x {
		e := math.Exp(float64(x) - float64(shift))
		sum += e
		y[i] = T(e)
	}
	return sum
}

// ExpTotal returns the sum of ExpSum, without writing the powers.
func ExpTotal[T kernel.Float](x []T, shift T) float64 {
	return ExpTotalOf(kernel.VectorsOf[T](), x, shift)
}

// ExpTotalOf is ExpTotal by the loops of v.
func ExpTotalOf[T kernel.Float](v kernel.Kind, x []T, shift T) float64 {
	if has(v, loopExpTotal) {
		t := vectorArgs{c: [3]float32{float32(shift)}}
		each(v, loopExpTotal, &t, float32(math.Inf(-1)), [3][]float32{}, [4][]float32{kernel.Float32s(x)})
		return t.total
	}
	sum := 0.0
	for _, x := range x {
		sum += math.Exp(float64(x) - float64(shift))
	}
	return sum
}

// Scaled sets y = x·factor/sum, computed in float64 and rounded once. The loop in Go
// divides every x by sum; the loops over vectors compute factor/sum first. y may be x.
func Scaled[T kernel.Float](y, x []T, factor, sum float64) {
	ScaledOf(kernel.VectorsOf[T](), y, x, factor, sum)
}

// ScaledOf is Scaled by the loops of v.
func ScaledOf[T kernel.Float](v kernel.Kind, y, x []T, factor, sum float64) {
	y = y[:len(x)]
	if has(v, loopScaled) {
		t := vectorArgs{wide: [10]float64{factor / sum}}
		each(v, loopScaled, &t, 0, [3][]float32{kernel.Float32s(y)}, [4][]float32{kernel.Float32s(x)})
		return
	}
	for i, x := range x {
		y[i] = T(float64(x) / sum * factor)
	}
}
