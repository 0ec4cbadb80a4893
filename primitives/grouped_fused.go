package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
)

// The kernels of joined instructions. Their arguments are rows in expert order, matrices
// and, last, the counts. Results have the same bits as without joining.

// inNumber returns the kernel for the element type of the first result.
func inNumber(bf16, f16, f32, f64 exec.Kernel) exec.Kernel {
	return func(a *exec.Args) error {
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

// fused is the work of a joined instruction, cut between rows.
type fused[E gemm.Number] struct {
	exec.Taking
	*exec.Args
	expertWork
	transpose bool
	k         int // elements of a row
}

// fusedOf returns the work on experts' rows of k elements, their number, and the least
// number of rows worth a goroutine if a row costs `work` products.
//
// Unless packed copies are kept, a thread copies the matrix of each expert it works on. A
// matrix is thus copied once per call, with two exceptions. If two threads share the rows of
// an expert, both copy its matrix; this concerns fewer experts than threads. Fused products
// copy it again for each further 384 rows of an expert (gemm.Panels states the cost of
// sharing such a copy).
func fusedOf[E gemm.Number](a *exec.Args, transpose bool, align, k, work int) (w fused[E], rows, grain int) {
	counts := a.In[len(a.In)-1]
	return fused[E]{exec.Taking{}, a, expertWork{data[int32](counts), align, 0}, transpose, k}, total(counts), 1 + dotGrain/(1+work)
}

// matrix returns the matrix of expert e in argument i.
func (w *fused[E]) matrix(i, e int) gemm.Matrix[E] {
	return expertMatrix[E](w.Args, i, e, w.transpose)
}

// expertSwiGLU returns the kernel of groupedSwiGLU for the element type of the first result.
func expertSwiGLU(transpose bool, align int) exec.Kernel {
	return inNumber(groupedSwiGLU[array.Brain](transpose, align), groupedSwiGLU[array.Half](transpose, align),
		groupedSwiGLU[float32](transpose, align), groupedSwiGLU[float64](transpose, align))
}

// groupedSwiGLU computes h, and g and u if they are results, from rows, gate and up.
func groupedSwiGLU[E gemm.Number](transpose bool, align int) exec.Kernel {
	return func(a *exec.Args) error {
		k := expertLayout(a.In[1].Type, transpose).k
		w, rows, grain := fusedOf[E](a, transpose, align, k, 2*k*a.Out[0].Type.Shape[1])
		exec.Share(a, rows, grain, fusedSwiGLU[E]{w, expertRowsOf[E](a, 0)})
		return nil
	}
}

type fusedSwiGLU[E gemm.Number] struct {
	fused[E]
	x gemm.Left[E]
}

func (w *fusedSwiGLU[E]) Piece(lo, hi int) {
	h, n := data[E](w.Out[0]), w.Out[0].Type.Shape[1]
	w.each(lo, hi, func(e, start, from, to int) {
		from, to = start+from, start+to
		var g, u []E
		if len(w.Out) == 3 {
			g, u = kernel.From(data[E](w.Out[1]), from*n), kernel.From(data[E](w.Out[2]), from*n)
		}
		gemm.SwiGLU(w.Dry(), to-from, n, w.k, rowsFrom(w.x, from), w.matrix(1, e), w.matrix(2, e), g, u, kernel.From(h, from*n))
	})
}

// groupedSwiGLUGrad computes dg and du from dy, down, g and u.
func groupedSwiGLUGrad[E gemm.Number](transpose bool, align int) exec.Kernel {
	return func(a *exec.Args) error {
		k := a.In[0].Type.Shape[1]
		w, rows, grain := fusedOf[E](a, transpose, align, k, k*a.Out[0].Type.Shape[1])
		exec.Share(a, rows, grain, fusedSwiGLUGrad[E]{w})
		return nil
	}
}

type fusedSwiGLUGrad[E gemm.Number] struct{ fused[E] }

func (w *fusedSwiGLUGrad[E]) Piece(lo, hi int) {
	dy, g, u, dg, du := data[E](w.In[0]), data[E](w.In[2]), data[E](w.In[3]), data[E](w.Out[0]), data[E](w.Out[1])
	k, n := w.k, w.Out[0].Type.Shape[1]
	w.each(lo, hi, func(e, start, from, to int) {
		from, to = start+from, start+to
		at := from * n
		gemm.SwiGLUGrad(w.Dry(), to-from, n, k, kernel.From(dy, from*k), w.matrix(1, e), kernel.From(g, at), kernel.From(u, at), kernel.From(dg, at), kernel.From(du, at))
	})
}

// groupedSum computes y from a, its matrices, b and its matrices.
func groupedSum[E gemm.Number](transpose bool, align int) exec.Kernel {
	return func(a *exec.Args) error {
		k := a.In[0].Type.Shape[1]
		w, rows, grain := fusedOf[E](a, transpose, align, k, 2*k*a.Out[0].Type.Shape[1])
		exec.Share(a, rows, grain, fusedSum[E]{w})
		return nil
	}
}

type fusedSum[E gemm.Number] struct{ fused[E] }

func (w *fusedSum[E]) Piece(lo, hi int) {
	x, z, y := data[E](w.In[0]), data[E](w.In[2]), data[E](w.Out[0])
	k, n := w.k, w.Out[0].Type.Shape[1]
	w.each(lo, hi, func(e, start, from, to int) {
		from, to = start+from, start+to
		gemm.Sum(w.Dry(), to-from, n, k, kernel.From(x, from*k), w.matrix(1, e), kernel.From(z, from*k), w.matrix(3, e), kernel.From(y, from*n))
	})
}
