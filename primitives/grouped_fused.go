package primitives

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/lowering"
)

// The kernels of joined instructions. Each takes rows in expert order, matrices and
// last the counts, and has the bits of the instructions it stands for.

// inNumber returns the kernel for the element type of the first result.
func inNumber(bf16, f16, f32, f64 lowering.Kernel) lowering.Kernel {
	return func(a *lowering.Args) error {
		switch a.Out[0].Type.DType {
		case graph.BF16:
			return bf16(a)
		case graph.F16:
			return f16(a)
		case graph.F32:
			return f32(a)
		}
		return f64(a)
	}
}

// eachPiece calls f with pieces of the experts' rows, in parallel, where a row costs
// `work` products. A thread copies the matrices of the experts that it has rows of, unless
// there are copies that are kept: each is copied once in a call, but for those whose rows
// two threads share, at most one fewer than threads, and for each further 384 rows of an
// expert in fused products (see kernel.Panels for what sharing such a copy would cost).
func eachPiece(a *lowering.Args, align, work int, f func(expert, from, to int)) {
	counts := a.In[len(a.In)-1]
	z := zones{data[int32](counts), align, 0}
	a.Parallel(total(counts), 1+dotGrain/(1+work), func(lo, hi int) {
		z.each(lo, hi, func(e, start, from, to int) { f(e, start+from, start+to) })
	})
}

// groupedSwiGLU sets h, and g and u if they are wanted, of rows, gate and up.
func groupedSwiGLU[E kernel.Number](transpose bool, align int) lowering.Kernel {
	return func(a *lowering.Args) error {
		x, h := data[E](a.In[0]), data[E](a.Out[0])
		k, n := a.In[0].Type.Shape[1], a.Out[0].Type.Shape[1]
		eachPiece(a, align, 2*k*n, func(e, from, to int) {
			var g, u []E
			if len(a.Out) == 3 {
				g, u = data[E](a.Out[1])[from*n:to*n], data[E](a.Out[2])[from*n:to*n]
			}
			kernel.GemmSwiGLU(to-from, n, k, kernel.Left[E]{X: x[from*k:], Row: k}, expertMatrix[E](a, 1, e, transpose), expertMatrix[E](a, 2, e, transpose), g, u, h[from*n:])
		})
		return nil
	}
}

// groupedSwiGLUGrad sets dg and du of dy, down, g and u.
func groupedSwiGLUGrad[E kernel.Number](transpose bool, align int) lowering.Kernel {
	return func(a *lowering.Args) error {
		dy, g, u, dg, du := data[E](a.In[0]), data[E](a.In[2]), data[E](a.In[3]), data[E](a.Out[0]), data[E](a.Out[1])
		k, n := a.In[0].Type.Shape[1], a.Out[0].Type.Shape[1]
		eachPiece(a, align, k*n, func(e, from, to int) {
			at := from * n
			kernel.GemmSwiGLUGrad(to-from, n, k, dy[from*k:], expertMatrix[E](a, 1, e, transpose), g[at:], u[at:], dg[at:], du[at:])
		})
		return nil
	}
}

// groupedSum sets y of a, its matrices, b and its matrices.
func groupedSum[E kernel.Number](transpose bool, align int) lowering.Kernel {
	return func(a *lowering.Args) error {
		x, z, y := data[E](a.In[0]), data[E](a.In[2]), data[E](a.Out[0])
		k, n := a.In[0].Type.Shape[1], a.Out[0].Type.Shape[1]
		eachPiece(a, align, 2*k*n, func(e, from, to int) {
			kernel.GemmSum(to-from, n, k, x[from*k:], expertMatrix[E](a, 1, e, transpose), z[from*k:], expertMatrix[E](a, 3, e, transpose), y[from*n:])
		})
		return nil
	}
}
