package vector

import (
	"math"

	"github.com/gomoe/gomoe/internal/kernel"
)

// The functions below compute every element of their results from the elements of their
// arguments at the same index. All slices have the same length, and a result may be
// written over an argument. float64, and float32 with the portable kernels, are computed
// in float64 and rounded once. With avx2, avx512 and neon, which agree bit for bit,
// float32 is computed in float32. The bounds of its error, in units in the last place
// (ulp) of the exact result, are:
//
//	Exp       1.01 ulp
//	Logistic  3 ulp
//	Tanh      2 ulp
//	SiLU      4 ulp, and 2⁻¹⁴⁹|x| more
//	SwiGLU    5 ulp, and 2⁻¹⁴⁹|gate·up| more
//
// For infinities the result is the limit of the exact function, for NaN it is NaN.
// Results below the smallest normal number are not flushed to zero.

// Exp sets y = exp(x).
func Exp[T kernel.Float](y, x []T) { expOf(kernel.VectorsOf[T](), y, x) }

func expOf[T kernel.Float](v kernel.Kind, y, x []T) { function(v, loopExp, y, x, math.Exp) }

// Tanh sets y = tanh(x).
func Tanh[T kernel.Float](y, x []T) { tanhOf(kernel.VectorsOf[T](), y, x) }

func tanhOf[T kernel.Float](v kernel.Kind, y, x []T) { function(v, loopTanh, y, x, math.Tanh) }

// Logistic sets y = 1/(1 + exp(-x)).
func Logistic[T kernel.Float](y, x []T) { logisticOf(kernel.VectorsOf[T](), y, x) }

func logisticOf[T kernel.Float](v kernel.Kind, y, x []T) {
	function(v, loopLogistic, y, x, func(x float64) float64 {
		if x >= 0 {
			return 1 / (1 + math.Exp(-x))
		}
		e := math.Exp(x) // does not overflow
		return e / (1 + e)
	})
}

// SiLU sets y = x/(1 + exp(-x)), NaN at -Inf.
func SiLU[T kernel.Float](y, x []T) { siluOf(kernel.VectorsOf[T](), y, x) }

func siluOf[T kernel.Float](v kernel.Kind, y, x []T) {
	function(v, loopSiLU, y, x, func(x float64) float64 { return x * sigmoid(x) })
}

func function[T kernel.Float](v kernel.Kind, l loop, y, x []T, f func(float64) float64) {
	y = y[:len(x)]
	if has(v, l) {
		each(v, l, new(vectorArgs), 0, [3][]float32{kernel.Float32s(y)}, [4][]float32{kernel.Float32s(x)})
		return
	}
	for i, x := range x {
		y[i] = T(f(float64(x)))
	}
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// slope returns silu's derivative at x, given the sigmoid s.
func slope(x, s float64) float64 { return s * (1 + float64(x*(1-s))) }

// SiLUGrad sets dx = ct·s·(1 + x(1-s)) with s = 1/(1 + exp(-x)). With vectors the
// error is at most 2⁻²¹ times |ct|·s·(1 + |x|(1-s)).
func SiLUGrad[T kernel.Float](dx, x, ct []T) { siluGradOf(kernel.VectorsOf[T](), dx, x, ct) }

func siluGradOf[T kernel.Float](v kernel.Kind, dx, x, ct []T) {
	dx, ct = dx[:len(x)], ct[:len(x)]
	if has(v, loopSiLUGrad) {
		each(v, loopSiLUGrad, new(vectorArgs), 0, [3][]float32{kernel.Float32s(dx)}, [4][]float32{kernel.Float32s(x), kernel.Float32s(ct)})
		return
	}
	for i, x := range x {
		x := float64(x)
		dx[i] = T(float64(ct[i]) * slope(x, sigmoid(x)))
	}
}

// SwiGLU sets y = silu(gate)·up.
func SwiGLU[T kernel.Float](y, gate, up []T) { swigluOf(kernel.VectorsOf[T](), y, gate, up) }

func swigluOf[T kernel.Float](v kernel.Kind, y, gate, up []T) {
	y, up = y[:len(gate)], up[:len(gate)]
	if has(v, loopSwiGLU) {
		each(v, loopSwiGLU, new(vectorArgs), 0, [3][]float32{kernel.Float32s(y)}, [4][]float32{kernel.Float32s(gate), kernel.Float32s(up)})
		return
	}
	for i, x := range gate {
		x := float64(x)
		y[i] = T(x * sigmoid(x) * float64(up[i]))
	}
}

// SwiGLUGrad sets dgate = ct·up·silu'(gate), with the error of SiLUGrad, and dup =
// ct·silu(gate), with the error of SwiGLU.
func SwiGLUGrad[T kernel.Float](dgate, dup, gate, up, ct []T) {
	swigluGradOf(kernel.VectorsOf[T](), dgate, dup, gate, up, ct)
}

func swigluGradOf[T kernel.Float](v kernel.Kind, dgate, dup, gate, up, ct []T) {
	dgate, dup, up, ct = dgate[:len(gate)], dup[:len(gate)], up[:len(gate)], ct[:len(gate)]
	if has(v, loopSwiGLUGrad) {
		each(v, loopSwiGLUGrad, new(vectorArgs), 0, [3][]float32{kernel.Float32s(dgate), kernel.Float32s(dup)}, [4][]float32{kernel.Float32s(gate), kernel.Float32s(up), kernel.Float32s(ct)})
		return
	}
	for i := range gate {
		x, u, c := float64(gate[i]), float64(up[i]), float64(ct[i])
		s := sigmoid(x)
		dgate[i], dup[i] = T(c*u*slope(x, s)), T(c*x*s)
	}
}

// AddScaled sets y = sum + x·c. The product is rounded, and so is the sum.
func AddScaled[T kernel.Float](y, sum, x []T, c T) { addScaledOf(kernel.VectorsOf[T](), y, sum, x, c) }

func addScaledOf[T kernel.Float](v kernel.Kind, y, sum, x []T, c T) {
	y, sum = y[:len(x)], sum[:len(x)]
	if has(v, loopAddScaled) {
		each(v, loopAddScaled, &vectorArgs{c: [3]float32{float32(c)}}, 0, [3][]float32{kernel.Float32s(y)}, [4][]float32{kernel.Float32s(sum), kernel.Float32s(x)})
		return
	}
	for i, x := range x {
		y[i] = sum[i] + T(x*c)
	}
}
