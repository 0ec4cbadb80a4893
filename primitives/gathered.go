package primitives

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// The kernels of instructions that read rows in expert order through an index (see
// joinIndexed). The first two arguments are the array that has the rows and the index, and the arguments of the
// instruction that reads rows in order follow, without the rows.

// inOrder is the number of the first argument after rows in expert order, and afterIndex after rows that are read
// through an index.
const inOrder, afterIndex = 1, 2

// leftRows returns the rows that a kernel reads: the first argument, or what lies there behind an index, if the next
// argument of the kernel is number afterIndex. The array has tokens or packed rows. At is -1 for rows that belong to no
// pair.
func leftRows[E gemm.Number](a *exec.Args, next int) gemm.Left[E] {
	x := a.In[0]
	left := gemm.Left[E]{X: view[E](x.Bytes()), Row: rowSize(x.Type) / int(unsafe.Sizeof(E(0)))}
	if next == afterIndex {
		left.At = data[int32](a.In[1])
	}
	return left
}

// rowSize returns the bytes of a row of an array of two dimensions.
func rowSize(t graph.Type) int { return t.Shape[1] * t.DType.Size() }

// rowsFrom returns the rows of x from row i on.
func rowsFrom[E gemm.Number](x gemm.Left[E], i int) gemm.Left[E] {
	if x.At == nil {
		return gemm.Left[E]{X: kernel.From(x.X, i*x.Row), Row: x.Row}
	}
	return gemm.Left[E]{X: x.X, Row: x.Row, At: kernel.From(x.At, i)}
}

// gatheredWeighted multiplies every row behind an index by its weight.
func gatheredWeighted[T float](d graph.DType) exec.Kernel {
	return func(a *exec.Args) error {
		y, at := a.Out[0], data[int32](a.In[1])
		width, size := y.Type.Shape[1], y.Type.Shape[1]*d.Size()
		from := places{values: column{a.In[0].Bytes(), 0, rowSize(a.In[0].Type), size}}
		convertRows(a, min(len(at), y.Type.Shape[0]), width, rowConversion[T]{rowMove: rowMove{to: inArrays(a.Out, 1), from: from, at: at},
			d: d, as: d, factors: data[T](inType(a, a.In[afterIndex], array.DTypeOf[T]())), own: true})
		return nil
	}
}

// gatheredDots computes, for every row behind an index and the other row with its number, the
// sum of the products of their elements, in the order of reduce_sum.
func gatheredDots[T float](a *exec.Args) error {
	x, y := leftRows[T](a, afterIndex), a.In[afterIndex]
	width := y.Type.Shape[1]
	exec.Share(a, min(len(x.At), a.Out[0].Type.Len()), movedGrain(width*int(unsafe.Sizeof(T(0)))), dotsGathered[T]{x, data[T](y), data[T](a.Out[0]), width, exec.RoomsOf[T](a, width)})
	return nil
}

type dotsGathered[T float] struct {
	x     gemm.Left[T]
	y     []T
	out   []T
	n     int
	rooms *exec.Rooms[T]
}

func (w *dotsGathered[T]) Piece(lo, hi int) {
	product := w.rooms.Take()[:w.n]
	for i, j := range w.x.At[lo:hi] {
		if i += lo; j >= 0 {
			row := w.x.X[int(j)*w.x.Row:][:w.n]
			vector.Mul(product, row, w.y[i*w.n:][:w.n])
			w.out[i] = T(vector.Sum(product))
		}
	}
}
