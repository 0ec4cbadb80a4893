package primitives

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// The kernels of instructions that read rows in expert order through an index (see
// joinIndexed). The first n arguments say where the rows are, and those of the instruction that
// reads rows in order follow, without the rows.

// leftRows returns the rows. The arguments of rows that have arrived are the packed rows and,
// for each row in expert order, the row that has arrived. Otherwise they are tokens, the place
// of each pair and the row of each place. At is -1 for rows that belong to no pair.
func leftRows[E gemm.Number](a *exec.Args, placed bool) gemm.Left[E] {
	x := a.In[0]
	return gemm.Left[E]{X: view[E](x.Bytes()), Row: rowSize(x) / int(unsafe.Sizeof(E(0))), At: rowIndex(a, a.In, placed)}
}

// rowIndex returns for each row in expert order the row of args[0]; see leftRows.
func rowIndex(a *exec.Args, args []array.Array, placed bool) []int32 {
	if placed {
		return data[int32](args[1])
	}
	place, recv := data[int32](args[1]), data[int32](args[2])
	k := args[1].Type.Shape[1]
	at := exec.MakeDirty[int32](a, args[2].Type.Len())
	for i := range at {
		at[i] = -1
	}
	for pair, j := range place {
		if j >= 0 {
			at[recv[j]] = int32(pair / k)
		}
	}
	return at
}

// rowSize returns the bytes of a row of an array of two dimensions.
func rowSize(x array.Array) int { return x.Type.Shape[1] * x.Type.DType.Size() }

// gatheredRows is fused with rows x, of k elements, that are read through an index.
type gatheredRows[E gemm.Number] struct {
	fused[E]
	x gemm.Left[E]
}

// gatheredProduct is groupedMatmul of rows behind an index.
func gatheredProduct[E gemm.Number](transpose bool, align, n int, placed bool) exec.Kernel {
	return func(a *exec.Args) error {
		f := a.Out[0].Type.Shape[1]
		if f == 0 {
			return nil
		}
		k := expertLayout(a.In[n].Type, transpose).k
		w, rows, grain := fusedOf[E](a, transpose, align, k, k*f)
		exec.Share(a, rows, grain, productGathered[E]{gatheredRows[E]{w, leftRows[E](a, placed)}, n})
		return nil
	}
}

type productGathered[E gemm.Number] struct {
	gatheredRows[E]
	weights int // the argument
}

func (w *productGathered[E]) Piece(lo, hi int) {
	y, n := data[E](w.Out[0]), w.Out[0].Type.Shape[1]
	w.each(lo, hi, func(e, start, from, to int) {
		from, to = start+from, start+to
		gemm.Product(w.Dry(), to-from, n, w.k, rowsFrom(w.x, from), w.matrix(w.weights, e), kernel.From(y, from*n))
	})
}

// gatheredSwiGLU is groupedSwiGLU of rows behind an index.
func gatheredSwiGLU[E gemm.Number](transpose bool, align, n int, placed bool) exec.Kernel {
	return func(a *exec.Args) error {
		k := expertLayout(a.In[n].Type, transpose).k
		w, rows, grain := fusedOf[E](a, transpose, align, k, 2*k*a.Out[0].Type.Shape[1])
		exec.Share(a, rows, grain, swiGLUGathered[E]{gatheredRows[E]{w, leftRows[E](a, placed)}, n})
		return nil
	}
}

type swiGLUGathered[E gemm.Number] struct {
	gatheredRows[E]
	gate int // the argument; up is the next one
}

func (w *swiGLUGathered[E]) Piece(lo, hi int) {
	h, n := data[E](w.Out[0]), w.Out[0].Type.Shape[1]
	w.each(lo, hi, func(e, start, from, to int) {
		from, to = start+from, start+to
		var g, u []E
		if len(w.Out) == 3 {
			g, u = kernel.From(data[E](w.Out[1]), from*n), kernel.From(data[E](w.Out[2]), from*n)
		}
		gemm.SwiGLU(w.Dry(), to-from, n, w.k, rowsFrom(w.x, from), w.matrix(w.gate, e), w.matrix(w.gate+1, e), g, u, kernel.From(h, from*n))
	})
}

// gatheredOuter is groupedOuter in which rows behind an index are the left operand, if side is
// 0, or the right operand.
func gatheredOuter[E gemm.Number](align, n, side int, placed bool) exec.Kernel {
	return func(a *exec.Args) error {
		w, h, f := data[E](a.Out[0]), a.Out[0].Type.Shape[1], a.Out[0].Type.Shape[2]
		if h == 0 || f == 0 {
			return nil
		}
		z := zones{data[int32](a.In[n+1]), align, h}
		for e, rows := range z.counts {
			if rows == 0 && a.Dry() == nil {
				clear(w[e*h*f : (e+1)*h*f])
			}
		}
		x, y := leftRows[E](a, placed), gemm.Left[E]{X: data[E](a.In[n]), Row: a.In[n].Type.Shape[1]}
		if side == 1 {
			x, y = y, x
		}
		exec.Share(a, total(a.In[n+1])*h, 1+dotGrain/f, outersGathered[E]{exec.Taking{}, a.Dry(), z, x, y, w, h, f})
		return nil
	}
}

type outersGathered[E gemm.Number] struct {
	exec.Taking
	dry *kernel.Dry
	zones
	x, y gemm.Left[E]
	w    []E
	h, f int
}

func (p *outersGathered[E]) Piece(lo, hi int) {
	p.each(lo, hi, func(e, start, from, to int) {
		gemm.Outer(p.dry, to-from, p.f, int(p.counts[e]), rowsFrom(p.x, start), from, rowsFrom(p.y, start), kernel.From(p.w, (e*p.h+from)*p.f))
	})
}

// rowsFrom returns the rows of x from row i on.
func rowsFrom[E gemm.Number](x gemm.Left[E], i int) gemm.Left[E] {
	if x.At == nil {
		return gemm.Left[E]{X: kernel.From(x.X, i*x.Row), Row: x.Row}
	}
	return gemm.Left[E]{X: x.X, Row: x.Row, At: kernel.From(x.At, i)}
}

// gatheredWeighted multiplies every row behind an index by its weight.
func gatheredWeighted[T float](n int, placed bool) exec.Kernel {
	return func(a *exec.Args) error {
		x, width := leftRows[T](a, placed), a.Out[0].Type.Shape[1]
		exec.Share(a, min(len(x.At), a.Out[0].Type.Shape[0]), movedGrain(width*int(unsafe.Sizeof(T(0)))), weightedGathered[T]{x, data[T](a.In[n]), data[T](a.Out[0]), width})
		return nil
	}
}

type weightedGathered[T float] struct {
	x gemm.Left[T]
	w []T
	y []T
	n int
}

func (w *weightedGathered[T]) Piece(lo, hi int) {
	for i, j := range w.x.At[lo:hi] {
		if i += lo; j >= 0 {
			scale(w.y[i*w.n:(i+1)*w.n], w.x.X[int(j)*w.x.Row:][:w.n], w.w[i])
		}
	}
}

// gatheredDots computes, for every row behind an index and the other row with its number, the
// sum of the products of their elements, in the order of reduce_sum.
func gatheredDots[T float](n int, placed bool) exec.Kernel {
	return func(a *exec.Args) error {
		x, width := leftRows[T](a, placed), a.In[n].Type.Shape[1]
		exec.Share(a, min(len(x.At), a.Out[0].Type.Len()), movedGrain(width*int(unsafe.Sizeof(T(0)))), dotsGathered[T]{x, data[T](a.In[n]), data[T](a.Out[0]), width, exec.RoomsOf[T](a, width)})
		return nil
	}
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
