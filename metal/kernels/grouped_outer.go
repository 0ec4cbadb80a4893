package kernels

// groupedOuter serves sums of outer products of experts' rows: the gradient of the
// matrices.
func groupedOuter() Kernel {
	return Kernel{
		Name: "grouped_outer", Serves: []string{"grouped_outer"}, Primitives: []string{"grouped_outer"},
		Doc:       "for every expert the sum of its rows' outer products in f32, zeros for one without rows",
		Functions: tileFunctions("grouped_outer"),
		Stack:     3, // the result, behind rows, cotangents and counts
		Build:     groupedOuterProgram, Tolerance: tileTolerance(),
	}
}

func groupedOuterProgram(in *Instr) (*Program, error) {
	w := in.Results[0].Type.Shape
	return groupedSums(in, w[1], w[2], in.Experts(), 1)
}

// groupedSums sums the outer products of arguments 0 and 1, which hold rows of x and of y
// elements. There are that many sums, each over the rows of that many experts.
func groupedSums(in *Instr, x, y, sums, experts int) (*Program, error) {
	if !in.Ragged() || !in.Args[0].Ragged || !in.Args[1].Ragged {
		return nil, refuse("rows that are no experts'")
	}
	first, second, rows, cols, row, col := 0, 1, x, y, y, 1
	if y < x && y <= fewRows {
		// The transposed sums, so that the smaller dimension becomes the rows.
		first, second, rows, cols, row, col = 1, 0, y, x, 1, y
	}
	if rows == 0 || cols == 0 {
		return &Program{}, nil
	}
	t := tilingOf(rows)
	l, err := tileLaunch("grouped_outer", t,
		side{in.Args[first].Type.DType, 1, rows, nil}, side{in.Args[second].Type.DType, 1, cols, nil}, in.Results[0].Type.DType,
		[3]int{pieces(cols, t.cols), pieces(rows, t.rows), sums})
	if err != nil {
		return nil, err
	}
	low, high := groupedOperands{expert: x * y}.matrix(in.Results[0].Type.DType)
	l.Args = []Arg{In(first), In(second), Out(0), Zones(), Params(experts, in.Align, rows, cols, row, col, low, high)}
	return &Program{Launches: []Launch{l}}, nil
}
