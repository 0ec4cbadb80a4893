package primitives

import (
	"math"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering/ops"
)

// These are the loops of elementwise functions that package vector does not have.

func negate[T integer](y, x []T) {
	for i, v := range x {
		y[i] = -v
	}
}

// magnitude is for signed types. The least integer is its own negative.
func magnitude[T integer](y, x []T) {
	for i, v := range x {
		y[i] = max(v, -v)
	}
}

func sign[T integer](y, x []T) {
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

func square[T integer](y, x []T) {
	for i, v := range x {
		y[i] = v * v
	}
}

func add[T integer](z, x, y []T) {
	x, y = x[:len(z)], y[:len(z)]
	for i := range z {
		z[i] = x[i] + y[i]
	}
}

func subtract[T integer](z, x, y []T) {
	x, y = x[:len(z)], y[:len(z)]
	for i := range z {
		z[i] = x[i] - y[i]
	}
}

func multiplyInts[T integer](z, x, y []T) {
	x, y = x[:len(z)], y[:len(z)]
	for i := range z {
		z[i] = x[i] * y[i]
	}
}

func greater[T integer](z, x, y []T) {
	x, y = x[:len(z)], y[:len(z)]
	for i := range z {
		z[i] = max(x[i], y[i])
	}
}

func lesser[T integer](z, x, y []T) {
	x, y = x[:len(z)], y[:len(z)]
	for i := range z {
		z[i] = min(x[i], y[i])
	}
}

// divide gives all bits set for a division by 0. The least integer divided by -1 wraps to itself.
func divide[T integer](z, x, y []T) {
	for i := range z {
		if y[i] == 0 {
			z[i] = ^T(0)
		} else {
			z[i] = x[i] / y[i]
		}
	}
}

func modulo[T integer](z, x, y []T) {
	for i := range z {
		if y[i] == 0 {
			z[i] = x[i]
		} else {
			z[i] = x[i] % y[i]
		}
	}
}

// remainder computes in f64, in which the remainder of f32 is exact and not rounded at all.
func remainder[T float](z, x, y []T) {
	for i := range z {
		z[i] = T(math.Mod(float64(x[i]), float64(y[i])))
	}
}

func equal[T number](z []bool, x, y []T) {
	for i := range z {
		z[i] = x[i] == y[i]
	}
}

func unequal[T number](z []bool, x, y []T) {
	for i := range z {
		z[i] = x[i] != y[i]
	}
}

func less[T number](z []bool, x, y []T) {
	for i := range z {
		z[i] = x[i] < y[i]
	}
}

func atMost[T number](z []bool, x, y []T) {
	for i := range z {
		z[i] = x[i] <= y[i]
	}
}

func exceeds[T number](z []bool, x, y []T) {
	for i := range z {
		z[i] = x[i] > y[i]
	}
}

func reaches[T number](z []bool, x, y []T) {
	for i := range z {
		z[i] = x[i] >= y[i]
	}
}

func finite(a *exec.Args) error {
	if a.In[0].Type.DType == graph.F64 {
		each1(a, cheap, areFinite[float64])
		return nil
	}
	tiled(a, cheap, finiteTile)
	return nil
}

func finiteTile(a *exec.Args, lo, hi int, _ []float32, x [][]float32) {
	areFinite(data[bool](a.Out[0])[lo:hi], x[0])
}

func areFinite[T float](y []bool, x []T) {
	for i, v := range x {
		y[i] = v-v == 0 // NaN for infinities and NaN
	}
}

// bitwise returns the kernel of a logical function.
func bitwise(op ops.Op) exec.Kernel {
	return func(a *exec.Args) error {
		switch d := a.Out[0].Type.DType; d.Size() {
		case 1:
			ones := ^uint8(0)
			if d == graph.Bool {
				ones = 1
			}
			bitwiseWords(a, op, ones)
		case 4:
			bitwiseWords(a, op, ^uint32(0))
		default:
			bitwiseWords(a, op, ^uint64(0))
		}
		return nil
	}
}

// bitwiseWords computes on unsigned integers of the size of ones, which has the bits set that
// `not` flips.
func bitwiseWords[T uint8 | uint32 | uint64](a *exec.Args, op ops.Op, ones T) {
	z, x := work.Bits[T](a.Out[0]), work.Bits[T](a.In[0])
	y := x
	if len(a.In) > 1 {
		y = work.Bits[T](a.In[1])
	}
	exec.Share(a, len(z), cheap, bitwiseElements[T]{z, x, y, op, ones})
}

type bitwiseElements[T uint8 | uint32 | uint64] struct {
	z, x, y []T
	op      ops.Op
	ones    T
}

func (w *bitwiseElements[T]) Piece(lo, hi int) {
	z, x, y := w.z, w.x, w.y
	switch w.op {
	case ops.Not:
		for i := lo; i < hi; i++ {
			z[i] = x[i] ^ w.ones
		}
	case ops.And:
		for i := lo; i < hi; i++ {
			z[i] = x[i] & y[i]
		}
	case ops.Or:
		for i := lo; i < hi; i++ {
			z[i] = x[i] | y[i]
		}
	case ops.Xor:
		for i := lo; i < hi; i++ {
			z[i] = x[i] ^ y[i]
		}
	}
}
