package lowering

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// fill returns a kernel that sets all elements to x, rounded to the element type d.
func fill(x float64, d graph.DType) exec.Kernel {
	if d.IsBlock() { // without elements: see graph.FullOp
		return func(*exec.Args) error { return nil }
	}
	one := array.New(graph.T(d))
	one.Fill(x)
	return func(a *exec.Args) error {
		dst := a.Out[0].Bytes()
		for k := copy(dst, one.Bytes()); k < len(dst); {
			k += copy(dst[k:], dst[:k])
		}
		return nil
	}
}

// addAny adds its arguments from left to right; bf16 and f16 add in f32 and
// round once.
func addAny(a *exec.Args) error {
	out := a.Out[0]
	switch out.Type.DType {
	case graph.F64:
		sum[float64](a)
	case graph.F32:
		sum[float32](a)
	case graph.BF16:
		sum16(a, sumBrain)
	case graph.F16:
		sum16(a, sumHalf)
	}
	return nil
}

func sum[T float32 | float64](a *exec.Args) {
	const grain = 1 << 17
	n := a.Out[0].Type.Len()
	exec.Share(a, n, grain, sumElements[T]{a})
}

type sumElements[T float32 | float64] struct{ *exec.Args }

func (a *sumElements[T]) Piece(lo, hi int) {
	for ; lo < hi; lo += sumPiece {
		end := min(lo+sumPiece, hi)
		dst := array.Data[T](a.Out[0])[lo:end]
		x := array.Data[T](a.In[0])[lo:end]
		// The result may alias any argument. If it aliases a later one, all arguments of
		// an element are read before writing it.
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
			vector.Add(dst, x, array.Data[T](z)[lo:end])
			x = dst
		}
	}
}

// sumPiece is the number of elements of a sum that stay in the first-level cache.
const sumPiece = 2048

// shared reports whether x begins at the same address as one of the others.
func shared(x array.Array, others []array.Array) bool {
	for _, y := range others {
		if unsafe.SliceData(x.Bytes()) == unsafe.SliceData(y.Bytes()) {
			return true
		}
	}
	return false
}

// sum16 adds elements of 16 bits in f32 and rounds once.
func sum16(a *exec.Args, tile func(a *exec.Args, lo, hi int, sum, term []float32)) {
	exec.Share(a, a.Out[0].Type.Len(), 1<<17, sum16Elements{a, tile, exec.RoomsOf[float32](a, 2*sum16Tile)})
}

const sum16Tile = 512

type sum16Elements struct {
	*exec.Args
	tile  func(a *exec.Args, lo, hi int, sum, term []float32)
	rooms *exec.Rooms[float32]
}

func (a *sum16Elements) Piece(lo, hi int) {
	room := a.rooms.Take()
	for ; lo < hi; lo += sum16Tile {
		n := min(sum16Tile, hi-lo)
		a.tile(a.Args, lo, lo+n, room[:n], room[sum16Tile:][:n])
	}
}

func sumBrain(a *exec.Args, lo, hi int, sum, term []float32) {
	array.WidenBrain(sum, array.Data[array.Brain](a.In[0])[lo:hi])
	for _, z := range a.In[1:] {
		array.WidenBrain(term, array.Data[array.Brain](z)[lo:hi])
		vector.Add(sum, sum, term)
	}
	array.NarrowBrain(array.Data[array.Brain](a.Out[0])[lo:hi], sum)
}

func sumHalf(a *exec.Args, lo, hi int, sum, term []float32) {
	array.WidenHalf(sum, array.Data[array.Half](a.In[0])[lo:hi])
	for _, z := range a.In[1:] {
		array.WidenHalf(term, array.Data[array.Half](z)[lo:hi])
		vector.Add(sum, sum, term)
	}
	array.NarrowHalf(array.Data[array.Half](a.Out[0])[lo:hi], sum)
}
