package primitives

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering/ops"
)

// unaryKernel returns the host kernel of a function.
func unaryKernel(op ops.Op) exec.Kernel {
	few, grain := cheap, dear // the least pieces of f32, and of other types
	switch op {
	case ops.Neg, ops.Abs, ops.Sign, ops.Square, ops.Floor, ops.Ceil, ops.Sqrt:
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
func unaryFloat[T float](op ops.Op) func(y, x []T) {
	switch op {
	case ops.Neg:
		return vector.Neg[T]
	case ops.Abs:
		return vector.Abs[T]
	case ops.Sign:
		return vector.Sign[T]
	case ops.Square:
		return vector.Square[T]
	case ops.Floor:
		return vector.Floor[T]
	case ops.Ceil:
		return vector.Ceil[T]
	case ops.Sqrt:
		return vector.Sqrt[T]
	case ops.Rsqrt:
		return vector.Rsqrt[T]
	case ops.Exp:
		return vector.Exp[T]
	case ops.Expm1:
		return vector.Expm1[T]
	case ops.Log:
		return vector.Log[T]
	case ops.Log1p:
		return vector.Log1p[T]
	case ops.Sin:
		return vector.Sin[T]
	case ops.Cos:
		return vector.Cos[T]
	case ops.Tanh:
		return vector.Tanh[T]
	case ops.Logistic:
		return vector.Logistic[T]
	default:
		return vector.Erf[T]
	}
}

func unaryInt[T integer](op ops.Op) func(y, x []T) {
	switch op {
	case ops.Neg:
		return func(y, x []T) {
			for i, v := range x {
				y[i] = -v
			}
		}
	case ops.Abs:
		return func(y, x []T) {
			for i, v := range x {
				y[i] = max(v, -v) // signed types only; the least integer is its own negative
			}
		}
	case ops.Sign:
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
