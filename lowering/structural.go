package lowering

import (
	"math"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
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
	for ; lo < hi; lo += sumPiece {
		end := min(lo+sumPiece, hi)
		dst := array.Data[T](a.Out[0])[lo:end]
		x := array.Data[T](a.In[0])[lo:end]
		// The result may have the memory of any argument, so what is to come is
		// added before it is written over.
		if len(a.In) > 2 && shared(a.Out[0], a.In[2:]) {
			for i := range dst {
				s := x[i]
				for _, z := range a.In[1:] {
					s += array.Data[T](z)[lo+i]
				}
				dst[i] = s
			}
			continue
		}
		for _, z := range a.In[1:] {
			kernel.Add(dst, x, array.Data[T](z)[lo:end])
			x = dst
		}
	}
}

// sumPiece is how many elements of a sum stay in the first-level cache.
const sumPiece = 2048

// shared reports whether x has the memory of one of the others.
func shared(x array.Array, others []array.Array) bool {
	for _, y := range others {
		if unsafe.SliceData(x.Bytes()) == unsafe.SliceData(y.Bytes()) {
			return true
		}
	}
	return false
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
