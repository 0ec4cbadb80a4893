package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
)

// Matrix products of bf16 and f16 need no copies in f32: gemm.MultiplyHalf widens its
// operands if it has to, and rounds the sums.

// halfOperands reports whether x and y have the same 16-bit type and their products
// are summed in f32, that is, d is f32.
func halfOperands(x, y array.Array, d graph.DType) bool {
	t := x.Type.DType
	return t == y.Type.DType && (t == graph.BF16 || t == graph.F16) && d == graph.F32
}

// halfDot computes the product of operands for which halfOperands is true.
func halfDot(a *exec.Args, l, r operand) error {
	if l.array.Type.DType == graph.BF16 {
		halfDotOf(a, l, r, panelledHalf[array.Brain, float32], panelledHalf[array.Brain, array.Brain], panelledHalf[array.Brain, array.Half])
	} else {
		halfDotOf(a, l, r, panelledHalf[array.Half, float32], panelledHalf[array.Half, array.Brain], panelledHalf[array.Half, array.Half])
	}
	return nil
}

func halfDotOf[E gemm.Half](a *exec.Args, l, r operand, f32 multiplier[E, float32], bf16 multiplier[E, array.Brain], f16 multiplier[E, array.Half]) {
	switch z := a.Out[0]; z.Type.DType {
	case graph.F32:
		multiply(a, data[float32](z), l, r, f32)
	case graph.BF16:
		multiply(a, data[array.Brain](z), l, r, bf16)
	case graph.F16:
		multiply(a, data[array.Half](z), l, r, f16)
	}
}

// panelledHalf is gemm for 16-bit types, with panels.
func panelledHalf[E gemm.Half, R gemm.Result](dry *kernel.Dry, m, n, k int, x []E, ars, acs int, y []E, brs, bcs int, p gemm.Panels, z []R, ldc int, acc bool) {
	gemm.MultiplyHalfPanels(dry, m, n, k, x, ars, acs, gemm.Matrix[E]{X: y, Row: brs, Col: bcs, Panels: p}, z, ldc, acc)
}

// orHalf returns the kernel that runs bf16, f16 or others by the element type of
// the first argument, which the other floats share.
func orHalf(bf16, f16, others exec.Kernel) exec.Kernel {
	return func(a *exec.Args) error {
		switch a.In[0].Type.DType {
		case graph.BF16:
			return bf16(a)
		case graph.F16:
			return f16(a)
		}
		return others(a)
	}
}

// groupedOuterHalf is groupedOuter for 16-bit types.
func groupedOuterHalf[E gemm.Half](align int) exec.Kernel {
	return func(a *exec.Args) error {
		if p, n, grain := expertProductsOf[E](a, align); n > 0 {
			exec.Share(a, n, grain, expertOutersHalf[E]{p})
		}
		return nil
	}
}

type expertOutersHalf[E gemm.Half] struct{ expertProducts[E] }

func (p *expertOutersHalf[E]) Piece(lo, hi int) {
	h, f := p.h, p.f
	p.each(lo, hi, func(e, start, from, to int) {
		gemm.MultiplyHalfPanels(p.dry, to-from, f, int(p.counts[e]), kernel.From(p.x, start*h+from), 1, h,
			gemm.Matrix[E]{X: kernel.From(p.y, start*f), Row: f, Col: 1}, kernel.From(p.w, (e*h+from)*f), f, false)
	})
}
