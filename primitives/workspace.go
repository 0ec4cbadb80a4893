package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/blocks"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/lowering"
)

// The memory that kernels take beside their arguments and results; see lowering.Workspace.

// needFor returns the function for an element type, nil for others than floats.
func needFor[F any](d graph.DType, bf16, f16, f32, f64 F) (f F) {
	switch d {
	case graph.BF16:
		return bf16
	case graph.F16:
		return f16
	case graph.F32:
		return f32
	case graph.F64:
		return f64
	}
	return f
}

// gemmNeed is gemm.MultiplyNeed of two types, for weights whose panels are not there yet.
func gemmNeed(d, result graph.DType, m, n, k int, transposed bool) kernel.Need {
	type need func(m, n, k int, transposed, panels bool) kernel.Need
	f := needFor[need](d, gemm.MultiplyNeed[array.Brain, array.Brain], gemm.MultiplyNeed[array.Half, array.Half], gemm.MultiplyNeed[float32, float32], gemm.MultiplyNeed[float64, float64])
	if result == graph.F32 {
		f = needFor[need](d, gemm.MultiplyNeed[array.Brain, float32], gemm.MultiplyNeed[array.Half, float32], gemm.MultiplyNeed[float32, float32], nil)
	}
	if f == nil {
		return nil
	}
	return f(m, n, k, transposed, false)
}

// busy returns how many of the threads work on n pieces, of which grain are worth a thread.
func busy(threads, n, grain int) int { return min(threads, max(n/max(grain, 1), 1)) }

// groupedRows is what is known of experts' rows before a kernel runs. all is the number of
// rows of this rank if all ranks have equally many. each is the most rows of an expert,
// assumed to be twice the average; it decides whether a product copies its matrix.
type groupedRows struct{ all, each int }

// expertsRows returns groupedRows for rows with these global and local types on `ranks`
// ranks, each of which has `experts` experts.
func expertsRows(global, local graph.Type, experts, ranks int) groupedRows {
	all := min((global.Shape[0]+ranks-1)/ranks, local.Shape[0])
	experts = max(experts, 1)
	return groupedRows{all, min(2*((all+experts-1)/experts), local.Shape[0])}
}

// rowsIn is expertsRows for buffers of rows and of weights.
func rowsIn(p *lowering.Peephole, rows, weights int) groupedRows {
	b := p.Bufs[rows]
	return expertsRows(b.Global, b.Type, p.Bufs[weights].Type.Shape[0], p.Mesh.Ranks())
}

// workspace is that of a kernel with eachPiece, whose rows cost `work` products, and
// which needs so much for m of an expert's.
func (r groupedRows) workspace(work int, need func(m int) kernel.Need) lowering.Workspace {
	return lowering.Workspace{OnThreads: func(threads int) (map[string]int64, int) {
		n := busy(threads, r.all, 1+dotGrain/(1+work))
		return need(min(r.each, (r.all+n-1)/n)), n
	}}
}

// swigluSpace is the workspace of grouped_swiglu, with weights w.
func (r groupedRows) swigluSpace(w graph.Type, transpose, gathered, kept bool) lowering.Workspace {
	l := expertLayout(w, transpose)
	type need func(m, n, k int, transposed, panels, gathered, kept bool) kernel.Need
	f := needFor[need](w.DType, gemm.SwiGLUNeed[array.Brain], gemm.SwiGLUNeed[array.Half], gemm.SwiGLUNeed[float32], gemm.SwiGLUNeed[float64])
	return r.workspace(2*l.k*l.n, func(m int) kernel.Need { return f(m, l.n, l.k, transpose, false, gathered, kept) })
}

// sumSpace is the workspace of grouped_matmul_sum, of two products, and of
// grouped_swiglu_grad, of one.
func (r groupedRows) sumSpace(w graph.Type, transpose bool, products int) lowering.Workspace {
	l := expertLayout(w, transpose)
	type need func(m, n, k int, transposed, panels bool) kernel.Need
	f := needFor[need](w.DType, gemm.SumNeed[array.Brain], gemm.SumNeed[array.Half], gemm.SumNeed[float32], gemm.SumNeed[float64])
	return r.workspace(products*l.k*l.n, func(m int) kernel.Need { return f(m, l.n, l.k, transpose, false) })
}

// matmulSpace is the workspace of grouped_matmul.
func (r groupedRows) matmulSpace(w graph.Type, transpose bool) lowering.Workspace {
	l := expertLayout(w, transpose)
	return r.workspace(l.k*l.n, func(m int) kernel.Need { return gemmNeed(w.DType, w.DType, m, l.n, l.k, transpose) })
}

// outerSpace is the workspace of grouped_outer: products of h by f for each expert.
func (r groupedRows) outerSpace(w graph.Type) lowering.Workspace {
	experts, h, f := w.Shape[0], w.Shape[1], w.Shape[2]
	return lowering.Workspace{OnThreads: func(threads int) (map[string]int64, int) {
		n := busy(threads, r.all*h, 1+dotGrain/max(f, 1))
		return gemmNeed(w.DType, w.DType, min(h, (experts*h+n-1)/n), f, r.each, false), n
	}}
}

// dotSpace is the workspace of dot_general of types x, y and z.
func dotSpace(x, y, z graph.Type, l, r operandDims) lowering.Workspace {
	w := lowering.Workspace{Shared: operandSpace(x, l) + operandSpace(y, r)}
	d := z.DType
	if d.IsFloat() {
		d = max(graph.F32, x.DType, y.DType, z.DType)
		if x.DType.IsBlock() || y.DType.IsBlock() {
			d = max(graph.F32, z.DType)
		}
	}
	if e := x.DType; e == y.DType && (e == graph.BF16 || e == graph.F16) && d == graph.F32 {
		d = e
	} else {
		for _, t := range []graph.Type{x, y, z} {
			if t.DType != d {
				w.Shared += t.With(d).Bytes()
			}
		}
	}
	batches, m, n, k := lenOf(x, l.batch), lenOf(x, l.free), lenOf(y, r.free), lenOf(x, l.contract)
	transposed := transposedRight(y, r)
	w.OnThreads = func(threads int) (map[string]int64, int) {
		if cutsColumns(batches, m, n, threads, copies(d, transposed)) {
			c := busy(threads, n, 1+dotGrain/(1+m*k))
			return gemmNeed(d, z.DType, m, (n+c-1)/c, k, transposed), c
		}
		c := busy(threads, batches*m, max(dotRows, 1+dotGrain/(1+n*k)))
		return gemmNeed(d, z.DType, min(m, (batches*m+c-1)/c), n, k, transposed), c
	}
	return w
}

// lenOf returns the number of elements of some dimensions.
func lenOf(t graph.Type, dims []int) int {
	n := 1
	for _, d := range dims {
		n *= t.Shape[d]
	}
	return n
}

// transposedRight reports whether y, the right argument of a product, is contiguous
// along what is contracted.
func transposedRight(y graph.Type, dims operandDims) bool {
	return len(dims.contract) > 0 && y.Rank() > 0 && dims.contract[len(dims.contract)-1] == y.Rank()-1
}

// operandSpace is what operandOf copies.
func operandSpace(t graph.Type, dims operandDims) int64 {
	strides := make([]int, t.Rank())
	for i, s := t.Rank()-1, 1; i >= 0; i-- {
		strides[i] = s
		s *= t.Shape[i]
	}
	_, _, ok := merge(t.Shape, strides, dims.free)
	_, _, too := merge(t.Shape, strides, dims.contract)
	if ok && too {
		return 0
	}
	return t.Bytes()
}

// attentionSpace is the workspace of causal_attention, or with `back` its gradient, of
// float64 or float32.
func attentionSpace[T float](p AttentionOp, q, k graph.Type, back bool) lowering.Workspace {
	h := newHeads[T](p, q, k)
	return lowering.Workspace{OnThreads: func(threads int) (map[string]int64, int) {
		scores := h.b * h.n * h.Work()
		if back {
			scores *= 2
		}
		return h.Need(back), busy(threads, scores, h.grain())
	}}
}

// floatKernel emits a kernel that widens what is narrower than f32; see inFloat.
func floatKernel(e *lowering.Emitter, name string, out, in []lowering.Buf, f32, f64 exec.Kernel) error {
	return e.Emit(lowering.KernelSpec{Name: name, Out: out, In: in, Workspace: widening(out, in), Kernel: inFloat(f32, f64)})
}

// widening is the workspace of `widened` for arguments and results.
func widening(out, in []lowering.Buf) lowering.Workspace {
	return lowering.Workspace{Shared: widenedBytes(out) + widenedBytes(in)}
}

// widenedBytes is what `widened` takes for arrays.
func widenedBytes(bufs []lowering.Buf) int64 {
	var sum int64
	for _, b := range bufs {
		if d := b.Type.DType; d == graph.BF16 || d == graph.F16 {
			sum += b.Type.With(graph.F32).Bytes()
		}
	}
	return sum
}

// blocksSpace is the workspace of dot_general_blocks of weights w and x, the other
// argument.
func blocksSpace(w, x, z graph.Type, dims operandDims) lowering.Workspace {
	shared := operandSpace(x.With(graph.F32), dims)
	for _, t := range []graph.Type{x, z} {
		if t.DType != graph.F32 {
			shared += t.With(graph.F32).Bytes()
		}
	}
	k := w.Shape[w.Rank()-1]
	return lowering.Workspace{Shared: shared + int64(x.Len()/max(k, 1)*blocks.RowBytes(w.DType, k)) + 63}
}

// groupedBlocksSpace is the workspace of grouped_matmul_blocks of rows x and weights of
// type d.
func groupedBlocksSpace(d graph.DType, x, y graph.Type, transpose bool) lowering.Workspace {
	shared := int64(0)
	for _, t := range []graph.Type{x, y} {
		if t.DType == graph.BF16 || t.DType == graph.F16 {
			shared += t.With(graph.F32).Bytes()
		}
	}
	if transpose && x.DType != graph.F64 {
		shared += int64(x.Shape[0]*blocks.RowBytes(d, x.Shape[1])) + 63
	}
	return lowering.Workspace{Shared: shared}
}
