package kernels

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// groupedSwiGLU serves the products of experts' rows with gate and up, and swiglu of the two.
func groupedSwiGLU() Kernel {
	return Kernel{
		Name: "grouped_swiglu", Serves: []ops.Op{ops.GroupedSwiGLU, ops.GroupedSwiGLU | ops.Blocks}, Primitives: []string{"grouped_matmul", "swiglu"},
		Doc:       "silu(gate)·up of every row, where it is or through an index, and two matrices of its expert, of any type that products have, in tiles, or for few rows in vectors; the products are not written",
		Functions: append(tileFunctions("grouped_swiglu", graph.NoDType, anyBlocks), matvecFunctions("grouped_swiglu", "")...),
		Stack:     1, Stacks: 2, Through: true,
		Build: groupedSwiGLUProgram, Tolerance: Tolerance{Relative: 4e-6, OfMax: 2e-5, Why: "f32 sums of products, 8 at a time, where the host has blocks of 256, and another exponential"},
	}
}

func groupedSwiGLUProgram(in *Instr) (*Program, error) {
	op, err := paramsOf[struct{ Transpose bool }](in.Prim)
	if err != nil || len(in.Args)-len(in.Indexed) != 4 || len(in.Results) != 1 {
		return nil, refuse("is no swiglu of two products of experts' rows")
	}
	w, up, y := in.Args[1].Type, in.Args[2].Type, in.Results[0]
	switch {
	case !in.Ragged() || !y.Ragged:
		return nil, refuse("rows that are no experts'")
	case !w.Equal(up):
		return nil, refuse("a gate of %s and an up of %s, want one type", w, up)
	}
	o := groupedOperands{cols: w.Shape[2], deep: w.Shape[1], line: 1, step: w.Shape[2], expert: w.Shape[1] * w.Shape[2]}
	if op.Transpose {
		o.cols, o.deep, o.line, o.step = w.Shape[1], w.Shape[2], w.Shape[2], 1
	}
	x, err := throughOf(in, 0, o.deep)
	if err != nil {
		return nil, err
	}
	rows := y.Type.Shape[0]
	if rows == 0 || o.cols == 0 {
		return &Program{}, nil
	}
	left, right := side{x.elem, x.apart, 1, nil}, side{w.DType, o.line, o.step, []int{o.expert}}
	var l Launch
	if matvecOf(in, x, o) {
		l, err = matvecLaunch("grouped_swiglu", "", left, right, y.Type.DType, o.cols, rows)
	} else {
		t := in.tiling(rowsPerExpert(in), x.elem, w.DType)
		tiles := min(rows, (rows+in.Experts()*(t.rows-1))/t.rows)
		l, err = tileLaunch("grouped_swiglu", t, left, right, y.Type.DType, [3]int{pieces(o.cols, t.cols/2), tiles, 1})
	}
	if err != nil {
		return nil, err
	}
	low, high := o.matrix(w.DType)
	l.Constants[7], l.Constants[8] = x.indexed, false
	l.Args = []Arg{x.x, In(1), In(2), Out(0), Zones(), x.at, Params(in.Experts(), in.Align, o.cols, o.deep, x.apart, o.line, o.step, low, high)}
	p := &Program{Launches: []Launch{l}}
	if w.DType.IsBlock() {
		p.Tolerance = &Tolerance{OfMax: 5e-2, Why: blocksTolerance().Why}
	}
	return p, nil
}
