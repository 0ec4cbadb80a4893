package kernels

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// dotGeneral serves products of arrays.
func dotGeneral() Kernel {
	return Kernel{
		Name: "dot_general", Serves: []ops.Op{ops.DotGeneral, ops.DotGeneral | ops.Parts}, Primitives: []string{"dot_general"},
		Doc: "products of arrays with batches, summed over any dimensions in f32; of 32-bit integers too",
		Functions: slices.Concat(dotTiles("dot_general"), dotTiles("grouped_matmul"), dotTiles("grouped_outer"),
			matvecFunctions("dot_matvec", "_1", "_4"), matvecFunctions("grouped_matvec", ""), []Function{{Name: "dot_integers", Threads: dotIntegersThreads}}),
		Build: dotProgram, Tolerance: tileTolerance(),
	}
}

func dotTiles(kernel string) []Function {
	return tileFunctions(kernel, graph.NoDType, graph.F32, anyBlocks)
}

// dotAxes are the dimensions of a product z of x and y: batch dimensions, dimensions of x alone, of
// y alone, and summed dimensions. Each has its strides in x, y and z.
type dotAxes struct{ batch, x, y, sum []axis }

// dotParams are the dimensions of the arguments of a product.
type dotParams struct{ LHSContract, RHSContract, LHSBatch, RHSBatch []int }

// dotAxesOf returns the dimensions named by the parameters of a product.
func dotAxesOf(p dotParams, x, y, z []int) dotAxes {
	xs, ys, zs := rowMajor(x), rowMajor(y), rowMajor(z)
	var a dotAxes
	at := 0 // dimension of z
	for i, d := range p.LHSBatch {
		a.batch = append(a.batch, axis{x[d], [3]int{xs[d], ys[p.RHSBatch[i]], zs[at]}})
		at++
	}
	for d, n := range x {
		if !slices.Contains(p.LHSBatch, d) && !slices.Contains(p.LHSContract, d) {
			a.x = append(a.x, axis{n, [3]int{xs[d], 0, zs[at]}})
			at++
		}
	}
	for d, n := range y {
		if !slices.Contains(p.RHSBatch, d) && !slices.Contains(p.RHSContract, d) {
			a.y = append(a.y, axis{n, [3]int{0, ys[d], zs[at]}})
			at++
		}
	}
	for i, d := range p.LHSContract {
		a.sum = append(a.sum, axis{x[d], [3]int{xs[d], ys[p.RHSContract[i]], 0}})
	}
	return a
}

// As in dot_general.metal.
const (
	dotBatch = 6
	dotDeep  = 3
)

func dotProgram(in *Instr) (*Program, error) {
	p, err := paramsOf[dotParams](in.Prim)
	if err != nil {
		return nil, err
	}
	x, y, z := in.Args[0], in.Args[1], in.Results[0]
	switch d := z.Type.DType; {
	case d == graph.I32 || d == graph.U32:
		return dotIntegers(in, p)
	case !d.IsFloat():
		return nil, refuse("no kernel for products of %s, only of f32, f16, bf16, i32 and u32", d)
	}
	for _, o := range []Operand{x, y} {
		if _, err := operandCode(o.Type.DType); err != nil {
			return nil, err
		}
	}
	if _, err := floatCode(z.Type.DType); err != nil {
		return nil, err
	}
	if in.Ragged() {
		return dotRagged(in, p)
	}
	if z.Type.Len() == 0 {
		return &Program{}, nil
	}
	a := dotAxesOf(p, x.Type.Shape, y.Type.Shape, z.Type.Shape)
	// A tile has one dimension of x, one of y, and one that is summed over. The remaining
	// dimensions of x and y become batch dimensions, along which the other operand is broadcast.
	rows, moreRows := longest(joined(a.x))
	cols, moreCols := longest(joined(a.y))
	sum, moreSum := longest(joined(a.sum))
	batch := slices.Concat(joined(a.batch), moreRows, moreCols)
	if len(batch) > dotBatch {
		return nil, refuse("its matrices have %d indices that no one stride describes, want at most %d", len(batch), dotBatch)
	}
	if len(moreSum) > dotDeep {
		return nil, refuse("it sums over %d dimensions that no one stride describes, want at most %d", len(moreSum)+1, dotDeep+1)
	}
	left, right, first, second := side{elem: x.Type.DType}, side{elem: y.Type.DType}, 0, 1
	few := cols.size < rows.size && cols.size <= fewRows
	if few || min(rows.size, cols.size) > fewRows && !narrow(left.elem) && narrow(right.elem) {
		// zᵀ = yᵀ·xᵀ, so that the smaller dimension, or the operand of 16 bits, becomes the rows.
		left, right, first, second = right, left, 1, 0
		rows, cols = cols, rows
	}
	left.line, left.deep = rows.strides[first], sum.strides[first]
	right.line, right.deep = cols.strides[second], sum.strides[second]
	for _, o := range slices.Concat(batch, moreSum) {
		left.others = append(left.others, o.strides[first])
		right.others = append(right.others, o.strides[second])
	}
	if len(batch) == 0 && len(moreSum) == 0 && rows.size > 0 && dotRows(in, p) <= matvecDense && fitsMatvec(left, right) {
		return dotMatvec(left, right, first, second, rows, cols, sum.size, z.Type.DType)
	}
	t := in.tiling(rows.size, left.elem, right.elem)
	l, err := tileLaunch("dot_general", t, left, right, z.Type.DType,
		[3]int{pieces(cols.size, t.cols), pieces(rows.size, t.rows), product(batch)})
	if err != nil {
		return nil, err
	}
	bs, bstrides := sizes(batch, dotBatch)
	os, ostrides := sizes(moreSum, dotDeep)
	l.Args = []Arg{In(first), In(second), Out(0), Params(slices.Concat(
		[]any{rows.size, cols.size, sum.size, left.line, left.deep, right.line, right.deep, rows.strides[2], cols.strides[2]},
		bs, bstrides[first], bstrides[second], bstrides[2], os, ostrides[first], ostrides[second])...)}
	return &Program{Launches: []Launch{l}}, nil
}

// dotRows returns the number of rows of the smaller side of a product, of all ranks together.
func dotRows(in *Instr, p dotParams) int {
	x, y, z := in.plan.Bufs[in.Args[0].Buf].Global, in.plan.Bufs[in.Args[1].Buf].Global, in.plan.Bufs[in.Results[0].Buf].Global
	a := dotAxesOf(p, x.Shape, y.Shape, z.Shape)
	return min(product(a.x), product(a.y))
}

// dotMatvec multiplies the few rows of argument first with argument second.
func dotMatvec(left, right side, first, second int, rows, cols axis, deep int, result graph.DType) (*Program, error) {
	suffix, groups := "_1", 1
	if rows.size > 1 {
		suffix, groups = "_4", pieces(rows.size, matvecDense)
	}
	l, err := matvecLaunch("dot_matvec", suffix, left, right, result, cols.size, groups)
	if err != nil {
		return nil, err
	}
	l.Args = []Arg{In(first), In(second), Out(0), Params(rows.size, cols.size, deep, left.line, right.line, right.deep, rows.strides[2], cols.strides[2])}
	return &Program{Launches: []Launch{l}}, nil
}
