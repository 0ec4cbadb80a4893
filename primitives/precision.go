package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/internal/quoted"
)

// The values of parameter precision of products, with the names of JAX. They apply to products of f32 summed
// in f32; other products ignore them.
//
// The highest precision, "", multiplies numbers of f32. The others multiply numbers of bf16, using faster
// instructions of some processors, and accumulate in f32. HighPrecision splits each number into the sum of two
// numbers of bf16, omitting the product of the two smaller ones, and so computes three products (JAX's
// bfloat16_3x). DefaultPrecision rounds each number to bf16. gemm.MultiplyParts states order and bounds.
const (
	HighPrecision    = "high"
	DefaultPrecision = "default"
)

// precisionOf returns an error if p is not a value of parameter precision.
func precisionOf(p string) error {
	switch p {
	case "", HighPrecision, DefaultPrecision:
		return nil
	}
	return fmt.Errorf("precision=%s, want %q or %q, or no precision for the highest", quoted.Text(p), HighPrecision, DefaultPrecision)
}

// treePrecision returns the error for combining a precision with sums in a tree.
func treePrecision(tree int, p string) error {
	return fmt.Errorf("precision=%s with tree=%d, want no precision: sums in a tree are of the highest", quoted.Text(p), tree)
}

// precisionDoc documents the parameter.
const precisionDoc = `precision: none for products of f32, "high" for three products of bf16 (each f32 number is the sum of two), "default" for one`

// inParts reports whether a product of x and y, with result z, multiplies parts when using this precision.
func inParts(precision string, x, y, z graph.DType) bool {
	return precision != "" && !x.IsBlock() && !y.IsBlock() && max(x, y) == graph.F32 && z != graph.F64 && z.IsFloat()
}

// MatMulAt is MatMul with a precision, such as HighPrecision.
func MatMulAt(precision string, x, y *graph.Value) *graph.Value {
	graph.Helper()
	if x.Rank() == 0 || y.Rank() != 2 {
		graph.Fail("matmul of %s and %s, want x[..,K] and y[K,N]; use DotGeneral for batches", x.Type, y.Type)
	}
	return graph.Apply1(dotGeneralOp{LHSContract: []int{x.Rank() - 1}, RHSContract: []int{0}, Precision: precision}, x, y)
}

// GroupedMatMulAt is GroupedMatMul with a precision, such as HighPrecision.
func GroupedMatMulAt(precision string, r Prepared, rows, w *graph.Value) *graph.Value {
	graph.Helper()
	r.weights(w)
	return graph.Apply1(groupedMatMulOp{Precision: precision}, rows, w, r.Value)
}

// partsOf splits x, of f32, into its parts. Each product of x recomputes them.
func partsOf(a *exec.Args, precision string, x array.Array) gemm.Parts {
	t := x.Type.With(graph.BF16)
	p := gemm.Parts{High: data[array.Brain](scratchArray(a, t))}
	if precision == HighPrecision {
		p.Low = data[array.Brain](scratchArray(a, t))
	}
	w := exec.New[partSplit](a)
	*w = partSplit{parts: p}
	if a.Dry() == nil {
		w.x = data[float32](x)
	}
	a.Share(x.Type.Len()/tile+1, cheap/tile, w)
	return p
}

// partSplit is the work of splitting numbers into parts, in tiles.
type partSplit struct {
	parts gemm.Parts
	x     []float32
}

func (s *partSplit) Piece(lo, hi int) {
	lo, hi = lo*tile, min(hi*tile, len(s.x))
	if lo < hi {
		s.parts.From(lo).Split(s.x[lo:hi])
	}
}

// dotParts is dotKernel for a precision multiplying parts.
func dotParts(l, r operandDims, precision string) exec.Kernel {
	return func(a *exec.Args) error {
		x, y, z := inType(a, a.In[0], graph.F32), inType(a, a.In[1], graph.F32), a.Out[0]
		if z.Type.DType != graph.F32 {
			z = scratchArray(a, z.Type.With(graph.F32))
		}
		lhs, rhs := operandOf(a, x, l), operandOf(a, y, r)
		batches, m, n, k := len(lhs.start), lhs.rows, rhs.rows, lhs.cols
		w := exec.New[partProducts](a)
		*w = partProducts{exec.Taking{}, a.Dry(), lhs, rhs, partsOf(a, precision, lhs.array), partsOf(a, precision, rhs.array), data[float32](z), 0, false}
		if w.columns = cutsColumns(batches, m, n, a.Threads, true); w.columns {
			for w.b = range batches {
				a.Share(n, 1+dotGrain/(1+m*k), w)
			}
		} else {
			a.Share(batches*m, max(dotRows, 1+dotGrain/(1+n*k)), w)
		}
		if z.Type.DType != a.Out[0].Type.DType {
			return convert(a, a.Out[0], z)
		}
		return nil
	}
}

// partProducts is a batch of products of parts, cutting the columns of batch index b or all
// rows.
type partProducts struct {
	exec.Taking
	dry     *kernel.Dry
	l, r    operand
	x, y    gemm.Parts
	z       []float32
	b       int
	columns bool
}

func (p *partProducts) Piece(lo, hi int) {
	m := p.l.rows
	if p.columns {
		p.block(p.b, 0, m, lo, hi)
		return
	}
	for at := lo; at < hi; {
		b, i := at/m, at%m
		end := min(m, i+hi-at)
		p.block(b, i, end, 0, p.r.rows)
		at += end - i
	}
}

func (p *partProducts) block(b, i0, i1, j0, j1 int) {
	if i0 >= i1 || j0 >= j1 {
		return
	}
	l, r := &p.l, &p.r
	gemm.MultiplyParts(p.dry, i1-i0, j1-j0, l.cols, p.x.From(l.start[b]+i0*l.rowStride), l.rowStride, l.colStride,
		p.y.From(r.start[b]+j0*r.rowStride), r.colStride, r.rowStride, kernel.From(p.z, (b*l.rows+i0)*r.rows+j0), r.rows)
}

// groupedParts is groupedMatmul for f32 in parts.
func groupedParts(transpose bool, align int, precision string) exec.Kernel {
	return func(a *exec.Args) error {
		h, f := a.In[0].Type.Shape[1], a.Out[0].Type.Shape[1]
		if f == 0 {
			return nil
		}
		x, y := partsOf(a, precision, a.In[0]), partsOf(a, precision, a.In[1])
		w, rows, grain := fusedOf[float32](a, transpose, align, h, h*f)
		exec.Share(a, rows, grain, groupedPartProducts{w, x, y})
		return nil
	}
}

type groupedPartProducts struct {
	fused[float32]
	x, y gemm.Parts
}

func (w *groupedPartProducts) Piece(lo, hi int) {
	z, h, f := data[float32](w.Out[0]), w.k, w.Out[0].Type.Shape[1]
	l := expertLayout(w.In[1].Type, w.transpose)
	w.each(lo, hi, func(e, start, from, to int) {
		from, to = start+from, start+to
		gemm.MultiplyParts(w.Dry(), to-from, f, h, w.x.From(from*h), h, 1, w.y.From(e*h*f), l.row, l.col, kernel.From(z, from*f), f)
	})
}

// outerParts is groupedOuter for f32 in parts.
func outerParts(align int, precision string) exec.Kernel {
	return func(a *exec.Args) error {
		if p, n, grain := expertProductsOf[float32](a, align); n > 0 {
			exec.Share(a, n, grain, expertPartOuters{p, partsOf(a, precision, a.In[0]), partsOf(a, precision, a.In[1])})
		}
		return nil
	}
}

type expertPartOuters struct {
	expertProducts[float32]
	left, right gemm.Parts
}

func (p *expertPartOuters) Piece(lo, hi int) {
	h, f := p.h, p.f
	p.each(lo, hi, func(e, start, from, to int) {
		gemm.MultiplyParts(p.dry, to-from, f, int(p.counts[e]), p.left.From(start*h+from), 1, h,
			p.right.From(start*f), f, 1, kernel.From(p.w, (e*h+from)*f), f)
	})
}
