package kernels

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// groupedMatmul serves products of experts' rows with the experts' matrices: the layer of
// experts itself, and, with the matrices transposed, the cotangent of the rows.
func groupedMatmul() Kernel {
	return Kernel{
		Name: "grouped_matmul", Serves: []ops.Op{ops.GroupedMatMul, ops.GroupedMatMul | ops.Parts}, Primitives: []string{"grouped_matmul"},
		Doc:       "every row, where it is or through an index, times the matrix of its expert, or the transposed one, summed in f32",
		Functions: append(tileFunctions("grouped_matmul", graph.NoDType, graph.F32, anyBlocks), matvecFunctions("grouped_matvec", "")...),
		Stack:     1, Through: true,
		Build: groupedMatmulProgram, Tolerance: tileTolerance(),
	}
}

func groupedMatmulProgram(in *Instr) (*Program, error) {
	op, err := paramsOf[struct{ Transpose bool }](in.Prim)
	if err != nil {
		return nil, err
	}
	w := in.Args[1].Type.Shape
	o := groupedOperands{cols: w[2], deep: w[1], line: 1, step: w[2], expert: w[1] * w[2]}
	if op.Transpose {
		o.cols, o.deep, o.line, o.step = w[1], w[2], w[2], 1
	}
	return groupedRows(in, o)
}

// groupedOperands are rows of deep elements, and matrices with cols columns. line, step and expert
// are the strides in the matrices: from one column to the next, along the sum, and from one expert
// to the next. expert is 0 if all rows are multiplied with the same matrix.
type groupedOperands struct{ cols, deep, line, step, expert int }

// matrix returns the bytes of an expert's matrix as two words, the lower first: see matrix_of
// in tile_zone.metal.
func (o groupedOperands) matrix(d graph.DType) (low, high uint32) {
	bytes := uint64(graph.T(d, o.expert).Bytes())
	return uint32(bytes), uint32(bytes >> 32)
}

// groupedRows multiplies experts' rows, the first argument, with the following argument.
func groupedRows(in *Instr, o groupedOperands) (*Program, error) {
	y := in.Results[0]
	if !in.Ragged() || !y.Ragged {
		return nil, refuse("rows that are no experts'")
	}
	x, err := throughOf(in, 0, o.deep)
	if err != nil {
		return nil, err
	}
	rows, w := y.Type.Shape[0], in.Args[1]
	if rows > 0 && o.cols > 0 && matvecOf(in, x, o) {
		return groupedMatvec(in, x, o, Params(0), false)
	}
	t := in.tiling(rowsPerExpert(in), x.elem, w.Type.DType)
	// Every expert may have a partially filled tile, but there are never more tiles than rows.
	tiles := min(rows, (rows+in.Experts()*(t.rows-1))/t.rows)
	if tiles == 0 || o.cols == 0 {
		return &Program{}, nil
	}
	l, err := tileLaunch("grouped_matmul", t,
		side{x.elem, x.apart, 1, nil}, side{w.Type.DType, o.line, o.step, []int{o.expert}}, y.Type.DType,
		[3]int{pieces(o.cols, t.cols), tiles, 1})
	if err != nil {
		return nil, err
	}
	low, high := o.matrix(w.Type.DType)
	l.Constants[7], l.Constants[8] = x.indexed, false
	l.Args = []Arg{x.x, In(1), Out(0), Zones(), x.at, Params(in.Experts(), in.Align, o.cols, o.deep, x.apart, o.line, o.step, low, high)}
	return &Program{Launches: []Launch{l}}, nil
}

// rowsPerExpert returns the number of rows of each of the rank's experts if the load is even. The
// capacity may be larger, because a single rank may receive all rows.
func rowsPerExpert(in *Instr) int {
	b := in.plan.Bufs[in.Results[0].Buf]
	return b.Global.Shape[0] / in.Mesh.Parts(b.Spec.At(0)) / max(in.Experts(), 1)
}
