package vector

import (
	"math"

	"github.com/gomoe/gomoe/internal/kernel"
)

// The functions below compute every element of their result from the elements of their
// arguments at the same index. All slices have the same length, and the result may be
// written over an argument. The functions from Neg to AddProduct have the same bits with all
// kernels. The others are computed in float64 and rounded once; results in float32 are
// within 0.51 units in the last place (ulp) of the exact result, including subnormal
// numbers. Their bits are the same with avx2 and avx512, and nearly always the same with
// the portable kernels, which neon uses as well.

// Neg sets y = -x.
func Neg[T kernel.Float](y, x []T) { unary(mathLoopsOf[T](), loopNeg, y, x) }

// Abs sets y = |x|.
func Abs[T kernel.Float](y, x []T) { unary(mathLoopsOf[T](), loopAbs, y, x) }

// Sign sets y to -1 or 1, or to x where that is 0, -0 or NaN.
func Sign[T kernel.Float](y, x []T) { unary(mathLoopsOf[T](), loopSign, y, x) }

// Square sets y = x².
func Square[T kernel.Float](y, x []T) { unary(mathLoopsOf[T](), loopSquare, y, x) }

// Sqrt sets y = √x.
func Sqrt[T kernel.Float](y, x []T) { unary(mathLoopsOf[T](), loopSqrt, y, x) }

// Rsqrt sets y = 1/√x, computed in float64 and rounded once.
func Rsqrt[T kernel.Float](y, x []T) { unary(mathLoopsOf[T](), loopRsqrt, y, x) }

// Floor sets y to the greatest whole number that is at most x, Ceil to the least that is
// at least x.
func Floor[T kernel.Float](y, x []T) { unary(mathLoopsOf[T](), loopFloor, y, x) }
func Ceil[T kernel.Float](y, x []T)  { unary(mathLoopsOf[T](), loopCeil, y, x) }

// Round and RoundToEven set y to the whole number nearest to x. Of two equally near,
// Round takes the one away from 0, and RoundToEven the even one.
func Round[T kernel.Float](y, x []T)       { unary(mathLoopsOf[T](), loopRound, y, x) }
func RoundToEven[T kernel.Float](y, x []T) { unary(mathLoopsOf[T](), loopRoundToEven, y, x) }

// Add, Sub, Mul and Div set z to x + y, x - y, x·y and x/y.
func Add[T kernel.Float](z, x, y []T) { binaryOf(mathLoopsOf[T](), loopAdd, z, x, y) }
func Sub[T kernel.Float](z, x, y []T) { binaryOf(mathLoopsOf[T](), loopSub, z, x, y) }
func Mul[T kernel.Float](z, x, y []T) { binaryOf(mathLoopsOf[T](), loopMul, z, x, y) }
func Div[T kernel.Float](z, x, y []T) { binaryOf(mathLoopsOf[T](), loopDiv, z, x, y) }

// Maximum and Minimum set z to the larger and the smaller of x and y. The result is NaN if
// one of them is NaN; -0 is smaller than 0.
func Maximum[T kernel.Float](z, x, y []T) { binaryOf(mathLoopsOf[T](), loopMaximum, z, x, y) }
func Minimum[T kernel.Float](z, x, y []T) { binaryOf(mathLoopsOf[T](), loopMinimum, z, x, y) }

// Clamp sets y = min(max(x, lo), hi), with NaN and -0 as in Maximum.
func Clamp[T kernel.Float](y, x []T, lo, hi T) { clamp(mathLoopsOf[T](), y, x, lo, hi) }

func clamp[T kernel.Float](l *mathLoops, y, x []T, lo, hi T) {
	y = y[:len(x)]
	if l != nil && l.clamp != nil {
		l.clamp(len(x), first(y), first(x), float32(lo), float32(hi))
		return
	}
	for i, x := range x {
		y[i] = min(max(x, lo), hi)
	}
}

// AddProduct sets z = sum + x·y. The product is rounded, and so is the sum.
func AddProduct[T kernel.Float](z, sum, x, y []T) { addProduct(mathLoopsOf[T](), z, sum, x, y) }

func addProduct[T kernel.Float](l *mathLoops, z, sum, x, y []T) {
	z, sum, y = z[:len(x)], sum[:len(x)], y[:len(x)]
	if l != nil && l.products != nil {
		l.products(len(x), first(z), first(sum), first(x), first(y))
		return
	}
	for i, x := range x {
		z[i] = sum[i] + T(x*y[i])
	}
}

// Expm1 sets y = exp(x) - 1.
func Expm1[T kernel.Float](y, x []T) { unary(mathLoopsOf[T](), loopExpm1, y, x) }

// Log sets y to the natural logarithm of x.
func Log[T kernel.Float](y, x []T) { unary(mathLoopsOf[T](), loopLog, y, x) }

// Log1p sets y to the logarithm of 1 + x.
func Log1p[T kernel.Float](y, x []T) { unary(mathLoopsOf[T](), loopLog1p, y, x) }

// Pow sets z to x to the power of y, with the special cases of math.Pow.
func Pow[T kernel.Float](z, x, y []T) { binaryOf(mathLoopsOf[T](), loopPow, z, x, y) }

// Erf sets y = 2/√π · ∫₀ˣ exp(-t²) dt.
func Erf[T kernel.Float](y, x []T) { unary(mathLoopsOf[T](), loopErf, y, x) }

// Sin and Cos set y to the sine and the cosine of x radians.
func Sin[T kernel.Float](y, x []T) { circle(mathLoopsOf[T](), 0, y, x, math.Sin) }
func Cos[T kernel.Float](y, x []T) { circle(mathLoopsOf[T](), 1, y, x, math.Cos) }

func circle[T kernel.Float](l *mathLoops, which int, y, x []T, f func(float64) float64) {
	y = y[:len(x)]
	if l == nil || l.circle[which] == nil {
		function(kernel.Portable, 0, y, x, f)
		return
	}
	if l.circle[which](len(x), first(y), first(x)) == 0 {
		return
	}
	for i, v := range y {
		if math.Abs(float64(v)) >= 1<<50 {
			y[i] = T(f(float64(v)))
		}
	}
}

// GELU sets y = x·Φ(x), where Φ is the normal distribution function. It is NaN at -Inf.
func GELU[T kernel.Float](y, x []T) { unary(mathLoopsOf[T](), loopGELU, y, x) }

// GELUGrad sets dx = ct·(Φ(x) + x·φ(x)), where φ is the normal distribution's density.
func GELUGrad[T kernel.Float](dx, x, ct []T) { binaryOf(mathLoopsOf[T](), loopGELUGrad, dx, x, ct) }

// GELUTanh sets y = x·½(1 + tanh(√(2/π)(x + 0.044715 x³))).
func GELUTanh[T kernel.Float](y, x []T) { unary(mathLoopsOf[T](), loopGELUTanh, y, x) }

// GELUTanhGrad sets dx to ct times the derivative of GELUTanh at x.
func GELUTanhGrad[T kernel.Float](dx, x, ct []T) {
	binaryOf(mathLoopsOf[T](), loopGELUTanhGrad, dx, x, ct)
}

func unary[T kernel.Float](l *mathLoops, loop int, y, x []T) {
	y = y[:len(x)]
	if l.in1(loop, len(x), first(y), first(x)) {
		return
	}
	switch loop {
	case loopNeg:
		for i, x := range x {
			y[i] = -x
		}
	case loopAbs:
		for i, x := range x {
			y[i] = T(math.Abs(float64(x)))
		}
	case loopSign:
		for i, x := range x {
			switch {
			case x > 0:
				x = 1
			case x < 0:
				x = -1
			}
			y[i] = x
		}
	case loopSquare:
		for i, x := range x {
			y[i] = x * x
		}
	case loopSqrt:
		for i, x := range x {
			y[i] = T(math.Sqrt(float64(x)))
		}
	case loopRsqrt:
		for i, x := range x {
			y[i] = T(1 / math.Sqrt(float64(x)))
		}
	default:
		function(kernel.Portable, 0, y, x, scalarFunction(loop))
	}
}

func scalarFunction(loop int) func(float64) float64 {
	switch loop {
	case loopFloor:
		return math.Floor
	case loopCeil:
		return math.Ceil
	case loopRound:
		return math.Round
	case loopRoundToEven:
		return math.RoundToEven
	case loopExpm1:
		return math.Expm1
	case loopLog:
		return math.Log
	case loopLog1p:
		return math.Log1p
	case loopErf:
		return math.Erf
	case loopGELU:
		return gelu
	default:
		return geluTanh
	}
}

func binaryOf[T kernel.Float](l *mathLoops, loop int, z, x, y []T) {
	z, y = z[:len(x)], y[:len(x)]
	if l.in2(loop, len(x), first(z), first(x), first(y)) {
		return
	}
	switch loop {
	case loopAdd:
		for i := range x {
			z[i] = x[i] + y[i]
		}
	case loopSub:
		for i := range x {
			z[i] = x[i] - y[i]
		}
	case loopMul:
		for i := range x {
			z[i] = x[i] * y[i]
		}
	case loopDiv:
		for i := range x {
			z[i] = x[i] / y[i]
		}
	case loopMaximum:
		for i := range x {
			z[i] = max(x[i], y[i])
		}
	case loopMinimum:
		for i := range x {
			z[i] = min(x[i], y[i])
		}
	case loopPow:
		for i := range x {
			z[i] = T(math.Pow(float64(x[i]), float64(y[i])))
		}
	case loopGELUGrad:
		for i := range x {
			z[i] = T(float64(y[i]) * geluSlope(float64(x[i])))
		}
	case loopGELUTanhGrad:
		for i := range x {
			z[i] = T(float64(y[i]) * geluTanhSlope(float64(x[i])))
		}
	}
}
