package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/lowering"
)

// The kernels of joined instructions. Each takes rows in expert order, matrices and
// last the counts, and has the bits of the instructions it stands for.

// expertMatrix returns the matrix of expert e in w[E,in,out], or transposed
// [E,out,in].
func expertMatrix[T Float](w array.Array, e int, transpose bool) kernel.Matrix[T] {
	rows, cols := w.Type.Shape[1], w.Type.Shape[2]
	x := data[T](w)[e*rows*cols : (e+1)*rows*cols]
	if transpose {
		return kernel.Matrix[T]{X: x, Row: 1, Col: cols}
	}
	return kernel.Matrix[T]{X: x, Row: cols, Col: 1}
}

// eachPiece calls f with pieces of the experts' rows, in parallel, where a row costs
// `work` products.
func eachPiece(a *lowering.Args, align, work int, f func(expert, from, to int)) {
	counts := a.In[len(a.In)-1]
	z := zones{data[int32](counts), align, 0}
	a.Parallel(total(counts), 1+dotGrain/(1+work), func(lo, hi int) {
		z.each(lo, hi, func(e, start, from, to int) { f(e, start+from, start+to) })
	})
}

// groupedSwiGLU sets h, and g and u if they are wanted, of rows, gate and up.
func groupedSwiGLU[T Float](transpose bool, align int) lowering.Kernel {
	return func(a *lowering.Args) error {
		x, h := data[T](a.In[0]), data[T](a.Out[0])
		k, n := a.In[0].Type.Shape[1], a.Out[0].Type.Shape[1]
		eachPiece(a, align, 2*k*n, func(e, from, to int) {
			var g, u []T
			if len(a.Out) == 3 {
				g, u = data[T](a.Out[1])[from*n:to*n], data[T](a.Out[2])[from*n:to*n]
			}
			kernel.GemmSwiGLU(to-from, n, k, kernel.Left[T]{X: x[from*k:], Row: k}, expertMatrix[T](a.In[1], e, transpose), expertMatrix[T](a.In[2], e, transpose), g, u, h[from*n:])
		})
		return nil
	}
}

// groupedSwiGLUGrad sets dg and du of dy, down, g and u.
func groupedSwiGLUGrad[T Float](transpose bool, align int) lowering.Kernel {
	return func(a *lowering.Args) error {
		dy, g, u, dg, du := data[T](a.In[0]), data[T](a.In[2]), data[T](a.In[3]), data[T](a.Out[0]), data[T](a.Out[1])
		k, n := a.In[0].Type.Shape[1], a.Out[0].Type.Shape[1]
		eachPiece(a, align, k*n, func(e, from, to int) {
			at := from * n
			kernel.GemmSwiGLUGrad(to-from, n, k, dy[from*k:], expertMatrix[T](a.In[1], e, transpose), g[at:], u[at:], dg[at:], du[at:])
		})
		return nil
	}
}

// groupedSum sets y of a, its matrices, b and its matrices.
func groupedSum[T Float](transpose bool, align int) lowering.Kernel {
	return func(a *lowering.Args) error {
		x, z, y := data[T](a.In[0]), data[T](a.In[2]), data[T](a.Out[0])
		k, n := a.In[0].Type.Shape[1], a.Out[0].Type.Shape[1]
		eachPiece(a, align, 2*k*n, func(e, from, to int) {
			kernel.GemmSum(to-from, n, k, x[from*k:], expertMatrix[T](a.In[1], e, transpose), z[from*k:], expertMatrix[T](a.In[3], e, transpose), y[from*n:])
		})
		return nil
	}
}
