package primitives

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// unaryKernel returns the host kernel of a function.
func unaryKernel(op string) exec.Kernel {
	few, grain := cheap, dear // the least pieces of f32, and of other types
	switch op {
	case "neg", "abs", "sign", "square", "floor", "ceil", "sqrt":
		few, grain = swift, cheap
	}
	f32, f64 := unaryFloat[float32](op), unaryFloat[float64](op)
	i32, i64, u32, u8 := unaryInt[int32](op), unaryInt[int64](op), unaryInt[uint32](op), unaryInt[uint8](op)
	wide := func(_ *exec.Args, _, _ int, y []float32, x [][]float32) { f32(y, x[0]) }
	return func(a *exec.Args) error {
		switch a.Out[0].Type.DType {
		case graph.F32:
			each1(a, few, f32)
		case graph.F64:
			each1(a, grain, f64)
		case graph.I32:
			each1(a, grain, i32)
		case graph.I64:
			each1(a, grain, i64)
		case graph.U32:
			each1(a, grain, u32)
		case graph.U8:
			each1(a, grain, u8)
		default:
			tiled(a, grain, wide)
		}
		return nil
	}
}

// unaryFloat returns the function's loop over floats.
func unaryFloat[T float](op string) func(y, x []T) {
	switch op {
	case "neg":
		return vector.Neg[T]
	case "abs":
		return vector.Abs[T]
	case "sign":
		return vector.Sign[T]
	case "square":
		return vector.Square[T]
	case "floor":
		return vector.Floor[T]
	case "ceil":
		return vector.Ceil[T]
	case "sqrt":
		return vector.Sqrt[T]
	case "rsqrt":
		return vector.Rsqrt[T]
	case "exp":
		return vector.Exp[T]
	case "expm1":
		return vector.Expm1[T]
	case "log":
		return vector.Log[T]
	case "log1p":
		return vector.Log1p[T]
	case "sin":
		return vector.Sin[T]
	case "cos":
		return vector.Cos[T]
	case "tanh":
		return vector.Tanh[T]
	case "logistic":
		return vector.Logistic[T]
	default:
		return vector.Erf[T]
	}
}

func unaryInt[T integer](op string) func(y, x []T) {
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
				y[i] = max(v, -v) // signed types only; the least integer is its own negative
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
