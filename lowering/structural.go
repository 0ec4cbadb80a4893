package lowering

import (
	"math"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// fill returns the kernel that writes x, rounded to the element type.
func fill(x float64) Kernel {
	return func(a *Args) error {
		a.Out[0].Fill(x)
		return nil
	}
}

// addAny adds its arguments from left to right; bf16 and f16 add in f32 and
// round once.
func addAny(a *Args) error {
	out := a.Out[0]
	switch out.Type.DType {
	case graph.F64:
		sum[float64](a)
	case graph.F32:
		sum[float32](a)
	case graph.BF16:
		sum16(a, array.Brain.Float32, array.BrainOf)
	case graph.F16:
		sum16(a, array.Half.Float32, array.HalfOf)
	}
	return nil
}

func sum[T float32 | float64](a *Args) {
	const grain = 1 << 17
	n := a.Out[0].Type.Len()
	if a.Alone(n, grain) {
		sumRange[T](a, 0, n)
		return
	}
	a.Parallel(n, grain, func(lo, hi int) { sumRange[T](a, lo, hi) })
}

// sumRange adds elements lo to hi.
func sumRange[T float32 | float64](a *Args, lo, hi int) {
	dst := array.Data[T](a.Out[0])[lo:hi]
	x, y := array.Data[T](a.In[0])[lo:hi], array.Data[T](a.In[1])[lo:hi]
	if len(a.In) == 2 {
		for i := range dst {
			dst[i] = x[i] + y[i]
		}
		return
	}
	for i := range dst {
		s := x[i] + y[i]
		for _, z := range a.In[2:] {
			s += array.Data[T](z)[lo+i]
		}
		dst[i] = s
	}
}

func sum16[T array.Brain | array.Half](a *Args, wide func(T) float32, narrow func(float32) T) {
	dst := array.Data[T](a.Out[0])
	for i := range dst {
		s := float32(math.Copysign(0, -1)) // -0 is what adding leaves alone
		for _, z := range a.In {
			s += wide(array.Data[T](z)[i])
		}
		dst[i] = narrow(s)
	}
}
