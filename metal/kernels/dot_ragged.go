package kernels

// dotRagged serves products of experts' rows with one matrix shared by all experts, and sums over
// all rows.
func dotRagged(in *Instr, p dotParams) (*Program, error) {
	x, y, z := in.Args[0], in.Args[1], in.Results[0]
	a := dotAxesOf(p, x.Type.Shape, y.Type.Shape, z.Type.Shape)
	if len(a.batch) > 0 {
		return nil, refuse("experts' rows are batches of a product")
	}
	if x.Ragged && y.Ragged {
		return dotRaggedSum(in, a)
	}
	if !x.Ragged || len(a.x) != 1 {
		return nil, refuse("a product with experts' rows that are not the only dimension of the first argument that is kept")
	}
	sum, cols := joined(a.sum), joined(a.y)
	deep, moreDeep := longest(sum)
	col, moreCols := longest(cols)
	width := 1
	for _, n := range x.Type.Shape[1:] {
		width *= n
	}
	if len(moreDeep) > 0 || len(moreCols) > 0 || deep.size > 1 && deep.strides[0] != 1 {
		return nil, refuse("the matrix of a product with experts' rows has dimensions that no one stride describes")
	}
	return groupedRows(in, groupedOperands{cols: col.size, deep: width, line: col.strides[1], step: deep.strides[1]})
}

// dotRaggedSum serves Σ x[i]ᵀ·y[i] over all rows i in use.
func dotRaggedSum(in *Instr, a dotAxes) (*Program, error) {
	if len(a.sum) != 1 {
		return nil, refuse("it sums over experts' rows and other dimensions too")
	}
	return groupedSums(in, product(a.x), product(a.y), 1, in.Experts())
}
