package primitives

import (
	"math"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering/ops"
)

// binaryKernel returns the host kernel of a function.
func binaryKernel(op ops.Op) exec.Kernel {
	few, grain := swift, cheap // the least piece of f32, and of other types
	switch op {
	case ops.Pow:
		few, grain = cheap, dear
	case ops.Rem:
		few, grain = dear, dear
	}
	f32, f64 := binaryFloat[float32](op), binaryFloat[float64](op)
	i32, i64, u32, u8 := binaryInt[int32](op), binaryInt[int64](op), binaryInt[uint32](op), binaryInt[uint8](op)
	wide := func(_ *exec.Args, _, _ int, z []float32, x [][]float32) { f32(z, x[0], x[1]) }
	return func(a *exec.Args) error {
		switch a.Out[0].Type.DType {
		case graph.F32:
			each2(a, few, f32)
		case graph.F64:
			each2(a, grain, f64)
		case graph.I32:
			each2(a, grain, i32)
		case graph.I64:
			each2(a, grain, i64)
		case graph.U32:
			each2(a, grain, u32)
		case graph.U8:
			each2(a, grain, u8)
		case graph.Bool: // max and min of 0 and 1
			u8(bits[uint8](a.Out[0]), bits[uint8](a.In[0]), bits[uint8](a.In[1]))
		default:
			tiled(a, grain, wide)
		}
		return nil
	}
}

// arithmetic returns the loop of a function that all integer types have.
func arithmetic[T integer](op ops.Op) func(z, x, y []T) {
	switch op {
	case ops.Add:
		return func(z, x, y []T) {
			x, y = x[:len(z)], y[:len(z)]
			for i := range z {
				z[i] = x[i] + y[i]
			}
		}
	case ops.Sub:
		return func(z, x, y []T) {
			x, y = x[:len(z)], y[:len(z)]
			for i := range z {
				z[i] = x[i] - y[i]
			}
		}
	case ops.Mul:
		return func(z, x, y []T) {
			x, y = x[:len(z)], y[:len(z)]
			for i := range z {
				z[i] = x[i] * y[i]
			}
		}
	case ops.Max:
		return func(z, x, y []T) {
			x, y = x[:len(z)], y[:len(z)]
			for i := range z {
				z[i] = max(x[i], y[i])
			}
		}
	case ops.Min:
		return func(z, x, y []T) {
			x, y = x[:len(z)], y[:len(z)]
			for i := range z {
				z[i] = min(x[i], y[i])
			}
		}
	}
	return nil
}

func binaryFloat[T float](op ops.Op) func(z, x, y []T) {
	switch op {
	case ops.Add:
		return vector.Add[T]
	case ops.Sub:
		return vector.Sub[T]
	case ops.Mul:
		return vector.Mul[T]
	case ops.Div:
		return vector.Div[T]
	case ops.Max:
		return vector.Maximum[T]
	case ops.Min:
		return vector.Minimum[T]
	case ops.Rem: // of f32 it is exact in f64, and so not rounded at all
		return func(z, x, y []T) {
			for i := range z {
				z[i] = T(math.Mod(float64(x[i]), float64(y[i])))
			}
		}
	default:
		return vector.Pow[T]
	}
}

func binaryInt[T integer](op ops.Op) func(z, x, y []T) {
	switch op {
	case ops.Div:
		return func(z, x, y []T) {
			for i := range z {
				if y[i] == 0 {
					z[i] = ^T(0)
				} else {
					z[i] = x[i] / y[i] // the least integer divided by -1 wraps to itself
				}
			}
		}
	case ops.Rem:
		return func(z, x, y []T) {
			for i := range z {
				if y[i] == 0 {
					z[i] = x[i]
				} else {
					z[i] = x[i] % y[i]
				}
			}
		}
	}
	return arithmetic[T](op)
}
