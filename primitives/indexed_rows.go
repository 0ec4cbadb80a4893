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

// expertRowsOf returns the rows of argument i, in expert order or read through an index (see joinIndexed). With an
// index the argument is an array of tokens or of packed rows, and At is -1 for rows without a pair.
func expertRowsOf[E gemm.Number](a *exec.Args, i int) gemm.Left[E] {
	x := a.In[i]
	at, _ := a.IndexOf(i)
	return gemm.Left[E]{X: view[E](x.Bytes()), Row: rowSize(x.Type) / int(unsafe.Sizeof(E(0))), At: at}
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

// weightedRows gathers rows of type d through an index, multiplying each by its weight.
func weightedRows[T float](d graph.DType) exec.Kernel {
	return func(a *exec.Args) error {
		y := a.Out[0]
		at, _ := a.IndexOf(0)
		width, size := y.Type.Shape[1], y.Type.Shape[1]*d.Size()
		from := rowLayout{values: rowField{a.In[0].Bytes(), 0, rowSize(a.In[0].Type), size}}
		convertRows(a, min(len(at), y.Type.Shape[0]), width, rowConversion[T]{rowMove: rowMove{to: arrayLayout(a.Out, 1), from: from, at: at},
			d: d, as: d, factors: data[T](inType(a, a.In[1], array.DTypeOf[T]())), own: true})
		return nil
	}
}

// rowDots computes the dot product of every row read through an index with the same row of the other
// argument, adding in the order of reduce_sum.
func rowDots[T float](a *exec.Args) error {
	x, y := expertRowsOf[T](a, 0), a.In[1]
	width := y.Type.Shape[1]
	exec.Share(a, min(len(x.At), a.Out[0].Type.Len()), movedGrain(width*int(unsafe.Sizeof(T(0)))), dotsOfRows[T]{x, data[T](y), data[T](a.Out[0]), width, exec.RoomsOf[T](a, width)})
	return nil
}

type dotsOfRows[T float] struct {
	x     gemm.Left[T]
	y     []T
	out   []T
	n     int
	rooms *exec.Rooms[T]
}

func (w *dotsOfRows[T]) Piece(lo, hi int) {
	product := w.rooms.Take()[:w.n]
	for i, j := range w.x.At[lo:hi] {
		if i += lo; j >= 0 {
			row := w.x.X[int(j)*w.x.Row:][:w.n]
			vector.Mul(product, row, w.y[i*w.n:][:w.n])
			w.out[i] = T(vector.Sum(product))
		}
	}
}
