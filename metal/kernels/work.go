package kernels

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// Work returns a lower bound on the work of a matrix product: floating-point operations, two for
// each product, and bytes, with each operand read once and each result written once. The given
// number of rows in experts' order is in use; it counts as many of the experts' matrices as can
// have a row. ok is false for instructions that are not products of these kernels.
func Work(in *Instr, rows int) (flops, bytes int64, ok bool) {
	of := func(o Operand) int64 { return elements(o, rows) * int64(o.Type.DType.Size()) }
	used := int64(min(rows, in.Experts()))
	// through returns the bytes of experts' rows, of `deep` elements, read in place or through an
	// index. A row may be read through an index several times.
	through := func(arg, deep int) int64 {
		x, err := throughOf(in, arg, deep)
		if err != nil {
			return 0
		}
		n := rows
		if x.indexed {
			n = min(rows, in.Args[arg].Type.Shape[0])
		}
		return int64(n) * int64(deep) * int64(x.elem.Size())
	}
	switch in.op() {
	case ops.DotGeneral, ops.DotGeneral | ops.Parts:
		p, err := paramsOf[dotParams](in.Prim)
		if err != nil {
			return 0, 0, false
		}
		x, z := in.Args[0], in.Results[0]
		flops = 2 * elements(z, rows)
		for _, d := range p.LHSContract {
			n := x.Type.Shape[d]
			if x.Ragged && d == 0 {
				n = rows
			}
			flops *= int64(n)
		}
		return flops, of(x) + of(in.Args[1]) + of(z), true
	case ops.GroupedMatMul, ops.GroupedMatMul | ops.Parts:
		w, cols := in.Args[1].Type, in.Results[0].Type.Shape[1]
		each := int64(w.Shape[1]) * int64(w.Shape[2])
		return 2 * int64(rows) * each, through(0, int(each)/max(cols, 1)) + of(in.Results[0]) + used*graph.Type{DType: w.DType, Shape: w.Shape[1:]}.Bytes(), true
	case ops.GroupedSwiGLU:
		w, cols := in.Args[1].Type, in.Results[0].Type.Shape[1]
		each := int64(w.Shape[1]) * int64(w.Shape[2])
		return 4 * int64(rows) * each, through(0, int(each)/max(cols, 1)) + of(in.Results[0]) + 2*used*graph.Type{DType: w.DType, Shape: w.Shape[1:]}.Bytes(), true
	case ops.GroupedOuter, ops.GroupedOuter | ops.Parts:
		w := in.Results[0].Type
		return 2 * int64(rows) * int64(w.Shape[1]) * int64(w.Shape[2]), through(0, w.Shape[1]) + through(1, w.Shape[2]) + w.Bytes(), true
	case ops.ScaledMatMul, ops.AffineMatMul, ops.GroupedScaledMatMul, ops.GroupedAffineMatMul:
		x, z := in.Args[0], in.Results[0]
		bytes = of(x) + of(z)
		for _, o := range in.Args[1:] {
			switch t := o.Type; {
			case t.Rank() == 3 && t.Shape[0] > 0: // of a stack
				bytes += used * (t.Bytes() / int64(t.Shape[0]))
			case t.Rank() == 2:
				bytes += t.Bytes()
			}
		}
		return 2 * elements(z, rows) * int64(x.Type.Shape[x.Type.Rank()-1]), bytes, true
	}
	return 0, 0, false
}

// elements returns the number of elements of an operand if the given number of rows is in use.
func elements(o Operand, rows int) int64 {
	n := int64(1)
	for d, size := range o.Type.Shape {
		if d == 0 && o.Ragged {
			size = rows
		}
		n *= int64(size)
	}
	return n
}
