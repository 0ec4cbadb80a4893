package kernels

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// groupedOuter serves sums of outer products of experts' rows: the gradient of the matrices.
func groupedOuter() Kernel {
	return Kernel{
		Name: "grouped_outer", Serves: []ops.Op{ops.GroupedOuter, ops.GroupedOuter | ops.Parts}, Primitives: []string{"grouped_outer"},
		Doc:       "for every expert the sum of its rows' outer products, of rows where they are or through an index, in f32, zeros for one without rows",
		Functions: tileFunctions("grouped_outer", graph.NoDType, graph.F32),
		Through:   true,
		Stack:     3, // the result, behind rows, cotangents and counts
		Build:     groupedOuterProgram, Tolerance: tileTolerance(),
	}
}

func groupedOuterProgram(in *Instr) (*Program, error) {
	w := in.Results[0].Type.Shape
	return groupedSums(in, w[1], w[2], in.Experts(), 1)
}

// groupedSums sums the outer products of two arguments, which hold rows of x and of y elements. The result has as many
// sums as given by sums, each over the rows of the given number of experts.
func groupedSums(in *Instr, x, y, sums, experts int) (*Program, error) {
	if !in.Ragged() {
		return nil, refuse("rows that are no experts'")
	}
	a, err := throughOf(in, 0, x)
	if err != nil {
		return nil, err
	}
	b, err := throughOf(in, 1, y)
	if err != nil {
		return nil, err
	}
	rows, cols, row, col := x, y, y, 1
	if y < x && y <= fewRows {
		// The transposed sums, so that the smaller dimension becomes the rows.
		a, b, rows, cols, row, col = b, a, y, x, 1, y
	}
	if rows == 0 || cols == 0 {
		return &Program{}, nil
	}
	t := in.tiling(rows, a.elem, b.elem)
	l, err := tileLaunch("grouped_outer", t,
		side{a.elem, 1, a.apart, nil}, side{b.elem, 1, b.apart, nil}, in.Results[0].Type.DType,
		[3]int{pieces(cols, t.cols), pieces(rows, t.rows), sums})
	if err != nil {
		return nil, err
	}
	low, high := groupedOperands{expert: x * y}.matrix(in.Results[0].Type.DType)
	l.Constants[7], l.Constants[8] = a.indexed, b.indexed
	l.Args = []Arg{a.x, b.x, Out(0), Zones(), a.at, b.at, Params(experts, in.Align, rows, cols, a.apart, b.apart, row, col, low, high)}
	return &Program{Launches: []Launch{l}}, nil
}
