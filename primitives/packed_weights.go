package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/lowering"
)

// panelLayout identifies the panels of matrices of k by n numbers, storing element p,j at
// p*row+j*col.
type panelLayout struct{ k, n, row, col int }

// pack returns the packed copy of argument arg, `count` matrices of type d, or nil if packing gains
// nothing. of returns the layout and the number of the matrices of a rank's shard, possibly smaller
// than l and count.
func (l panelLayout) pack(arg int, d graph.DType, count int, of func(t graph.Type) (panelLayout, int)) []lowering.Pack {
	if count == 0 {
		return nil
	}
	switch d {
	case graph.BF16:
		return packOf[array.Brain](l, arg, count, of)
	case graph.F32:
		return packOf[float32](l, arg, count, of)
	case graph.F64:
		return packOf[float64](l, arg, count, of)
	}
	return nil
}

func packOf[E gemm.Number](l panelLayout, arg, count int, of func(t graph.Type) (panelLayout, int)) []lowering.Pack {
	size := gemm.PanelBytes[E](l.k, l.n, l.col != 1)
	if size == 0 {
		return nil
	}
	return []lowering.Pack{{Arg: arg, Layout: l, Type: graph.T(graph.U8, count, size), Kernel: func(a *exec.Args) error {
		mem := a.Out[0].Bytes()
		l, count := of(a.In[0].Type)
		size, units := panelBytes[E](l), (l.n+gemm.PanelUnit-1)/gemm.PanelUnit
		a.Parallel(count*units, 1+packGrain/(1+gemm.PanelUnit*l.k), func(lo, hi int) {
			for u := lo; u < hi; u++ {
				e, j := u/units, u%units*gemm.PanelUnit
				m := gemm.Matrix[E]{X: view[E](stackedBytes(a.In[0], e, count)), Row: l.row, Col: l.col}
				gemm.Pack(gemm.PanelsIn(mem[e*size:(e+1)*size], l.k, l.n), m, j, min(j+gemm.PanelUnit, l.n))
			}
		})
		return nil
	}}}
}

// panelBytes returns the size of a matrix's panels. It assumes that the matrix has panels,
// because strides do not identify a transposed shard with one row or one column.
func panelBytes[E gemm.Number](l panelLayout) int { return gemm.PanelBytes[E](l.k, l.n, true) }

// packGrain is the number of numbers worth a goroutine when packing: about 20 microseconds.
const packGrain = 1 << 16

// expertLayout returns the layout of the matrices of w[E,in,out], or of w[E,out,in] if
// transpose is set.
func expertLayout(w graph.Type, transpose bool) panelLayout {
	rows, cols := w.Shape[1], w.Shape[2]
	if transpose {
		return panelLayout{cols, rows, 1, cols}
	}
	return panelLayout{rows, cols, cols, 1}
}

// expertPacks returns the packed copies of the arguments args, each of type w, holding the matrices of
// all experts.
func expertPacks(w graph.Type, transpose bool, args ...int) []lowering.Pack {
	var packs []lowering.Pack
	of := func(t graph.Type) (panelLayout, int) { return expertLayout(t, transpose), t.Shape[0] }
	for _, arg := range args {
		packs = append(packs, expertLayout(w, transpose).pack(arg, w.DType, w.Shape[0], of)...)
	}
	return packs
}

// stackedBytes returns the memory of matrix e of the `count` matrices of a, stored contiguously or as
// slabs.
func stackedBytes(a array.Array, e, count int) []byte {
	if a.HasSlabs() {
		return a.Slab(e)
	}
	n := len(a.Bytes()) / count
	return a.Bytes()[e*n : (e+1)*n]
}

// matrixBytes returns the memory of matrix e of a stack, or of a if it is a matrix.
func matrixBytes(a array.Array, e int) []byte {
	if a.Type.Rank() == 2 {
		return a.Bytes()
	}
	return a.Slab(e)
}

// expertMatrix returns the matrix of expert e in argument arg, with its panels if there
// are any.
func expertMatrix[E gemm.Number](a *exec.Args, arg, e int, transpose bool) gemm.Matrix[E] {
	w := a.In[arg]
	l := expertLayout(w.Type, transpose)
	m := gemm.Matrix[E]{X: view[E](w.Slab(e)), Row: l.row, Col: l.col}
	if mem := a.Packed(arg); mem != nil {
		size := panelBytes[E](l)
		m.Panels = gemm.PanelsIn(mem[e*size:(e+1)*size], l.k, l.n)
	}
	return m
}
