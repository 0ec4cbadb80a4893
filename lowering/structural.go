package lowering

import (
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
