package primitives

import (
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/lowering"
)

// unaryKernel returns the host kernel of a function.
func unaryKernel(op string) lowering.Kernel {
	grain := dear
	switch op {
	case "neg", "abs", "sign", "square":
		grain = cheap
	}
	f32 := unaryFloat[float32](op)
	return func(a *lowering.Args) error {
		switch a.Out[0].Type.DType {
		case graph.F32:
			each1(a, grain, f32)
		case graph.F64:
			each1(a, grain, unaryFloat[float64](op))
		case graph.I32:
			each1(a, grain, unaryInt[int32](op))
		case graph.I64:
			each1(a, grain, unaryInt[int64](op))
		case graph.U32:
			each1(a, grain, unaryInt[uint32](op))
		case graph.U8:
			each1(a, grain, unaryInt[uint8](op))
		default:
			tiled(a, grain, func(_, _ int, y []float32, x [][]float32) { f32(y, x[0]) })
		}
		return nil
	}
}

// unaryFloat returns the loop of a function. What is more than arithmetic runs
// in f64 and is rounded, but for what the kernels in use have for f32.
func unaryFloat[T Float](op string) func(y, x []T) {
	switch op {
	case "neg":
		return func(y, x []T) {
			for i, v := range x {
				y[i] = -v
			}
		}
	case "abs":
		return func(y, x []T) {
			for i, v := range x {
				y[i] = T(math.Abs(float64(v)))
			}
		}
	case "sign":
		return func(y, x []T) {
			for i, v := range x {
				switch {
				case v > 0:
					v = 1
				case v < 0:
					v = -1
				}
				y[i] = v // 0, -0 and NaN are their own sign
			}
		}
	case "square":
		return func(y, x []T) {
			for i, v := range x {
				y[i] = v * v
			}
		}
	case "sqrt":
		return func(y, x []T) {
			for i, v := range x {
				y[i] = T(math.Sqrt(float64(v)))
			}
		}
	case "rsqrt":
		return func(y, x []T) {
			for i, v := range x {
				y[i] = T(1 / math.Sqrt(float64(v)))
			}
		}
	case "exp":
		return kernel.Exp[T]
	case "tanh":
		return kernel.Tanh[T]
	case "logistic":
		return kernel.Logistic[T]
	}
	f := unaryMath(op)
	return func(y, x []T) {
		for i, v := range x {
			y[i] = T(f(float64(v)))
		}
	}
}

func unaryMath(op string) func(float64) float64 {
	switch op {
	case "floor":
		return math.Floor
	case "ceil":
		return math.Ceil
	case "expm1":
		return math.Expm1
	case "log":
		return math.Log
	case "log1p":
		return math.Log1p
	case "sin":
		return math.Sin
	case "cos":
		return math.Cos
	default:
		return math.Erf
	}
}

func unaryInt[T Integer](op string) func(y, x []T) {
	switch op {
	case "neg":
		return func(y, x []T) {
			for i, v := range x {
				y[i] = -v
			}
		}
	case "abs":
		return func(y, x []T) {
			for i, v := range x {
				y[i] = max(v, -v) // signed only; the least one is its own negative
			}
		}
	case "sign":
		return func(y, x []T) {
			for i, v := range x {
				switch {
				case v > 0:
					v = 1
				case v < 0:
					v = ^T(0)
				}
				y[i] = v
			}
		}
	default: // square
		return func(y, x []T) {
			for i, v := range x {
				y[i] = v * v
			}
		}
	}
}
