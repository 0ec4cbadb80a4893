package lowering

import (
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
		sum16(a, array.WidenBrain, array.NarrowBrain)
	case graph.F16:
		sum16(a, array.WidenHalf, array.NarrowHalf)
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

// sum16 adds in f32 and rounds once.
func sum16[T array.Brain | array.Half](a *Args, widen func([]float32, []T), narrow func([]T, []float32)) {
	const grain, tile = 1 << 17, 512
	a.Parallel(a.Out[0].Type.Len(), grain, func(lo, hi int) {
		dst := array.Data[T](a.Out[0])
		var sum, term [tile]float32
		for ; lo < hi; lo += tile {
			end := min(lo+tile, hi)
			s, t := sum[:end-lo], term[:end-lo]
			widen(s, array.Data[T](a.In[0])[lo:end])
			for _, z := range a.In[1:] {
				widen(t, array.Data[T](z)[lo:end])
				for i, x := range t {
					s[i] += x
				}
			}
			narrow(dst[lo:end], s)
		}
	})
}
