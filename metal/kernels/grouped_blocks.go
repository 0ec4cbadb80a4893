package kernels

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

func groupedBlocks() Kernel {
	functions := append(tileFunctions("grouped_blocks", anyBlocks), Function{Name: "weigh_rows", Threads: lineThreads})
	functions = append(functions, matvecFunctions("grouped_matvec", "")...)
	return Kernel{
		Name: "grouped_blocks", Serves: []ops.Op{ops.GroupedMatMul | ops.Blocks, ops.GroupedMatMul | ops.Blocks | ops.Weighted}, Primitives: []string{"grouped_matmul"},
		Doc:       "every row times the matrix of its expert, in blocks of any type, in tiles, or for few rows in vectors; rows with weight 0 cost nothing",
		Functions: functions, Stack: 1,
		Build: groupedBlocksProgram, Tolerance: blocksTolerance(),
	}
}

func dotBlocks() Kernel {
	return Kernel{
		Name: "dot_blocks", Serves: []ops.Op{ops.DotGeneral | ops.Blocks}, Primitives: []string{"dot_general"},
		Doc:       "products of arrays with weights in blocks, which are decoded as they are brought to threadgroup memory",
		Functions: dotGeneral().Functions, Build: dotProgram, Tolerance: blocksTolerance(),
	}
}

// blocksTolerance allows for the host's rounding: it rounds rows to 8 bits for each block of
// weights.
func blocksTolerance() Tolerance {
	return Tolerance{OfMax: 2e-2, Why: "the host rounds rows to 8 bits, and multiplies integers; the device multiplies with rows as they are, with the bits of a product with the weights' elements in f32"}
}

func groupedBlocksProgram(in *Instr) (*Program, error) {
	op, err := paramsOf[struct{ Transpose bool }](in.Prim)
	if err != nil {
		return nil, err
	}
	x, w, y := in.Args[0], in.Args[1], in.Results[0]
	if !x.Ragged || !y.Ragged {
		return nil, refuse("rows that are no experts'")
	}
	s := w.Type.Shape
	o := groupedOperands{cols: s[2], deep: s[1], line: 1, step: s[2], expert: s[1] * s[2]}
	if op.Transpose {
		o.cols, o.deep, o.line, o.step = s[1], s[2], s[2], 1
	}
	rows := x.Type.Shape[0]
	if rows == 0 || o.cols == 0 {
		return &Program{}, nil
	}
	weights, weighted := Params(0), len(in.Args) == 4
	if weighted {
		weights = In(3)
	}
	low, high := o.matrix(w.Type.DType)
	params := Params(in.Experts(), in.Align, o.cols, o.deep, o.line, o.step, low, high, weighted)
	args := []Arg{In(0), In(1), Out(0), Zones(), weights, params}
	constants, err := codes(x.Type.DType, w.Type.DType, y.Type.DType)
	if err != nil {
		return nil, err
	}
	source := Source{File: "grouped_blocks.metal"}
	through, err := throughOf(in, 0, o.deep)
	if err != nil {
		return nil, err
	}
	if matvecOf(in, through, o) {
		return groupedMatvec(in, through, o, weights, weighted)
	}
	t := in.tiling(rowsPerExpert(in), x.Type.DType, w.Type.DType)
	left, right := side{x.Type.DType, o.deep, 1, nil}, side{w.Type.DType, o.line, o.step, []int{o.expert}}
	constants[3], constants[4], constants[5], constants[6] = left.across(), right.across(), left.fours(), right.fours()
	p := &Program{Launches: []Launch{{
		Source: source, Function: "grouped_blocks_" + t.name, Constants: constants, Args: args,
		Groups: [3]int{pieces(o.cols, t.cols), min(rows, (rows+in.Experts()*(t.rows-1))/t.rows), 1}, Threads: [3]int{tileThreads, 1, 1},
	}}}
	if weighted {
		groups, threads := line(o.cols)
		groups[1] = rows
		p.Launches = append(p.Launches, Launch{
			Source: source, Function: "weigh_rows", Args: []Arg{Out(0), weights, Zones(), params}, Groups: groups, Threads: threads,
		})
	}
	return p, nil
}

// codes returns the function constants for the element types of a product's operands and
// result.
func codes(a, b, c graph.DType) (map[int]any, error) {
	out := map[int]any{}
	for i, d := range []graph.DType{a, b, c} {
		code, err := operandCode(d)
		if i == 2 {
			code, err = floatCode(d)
		}
		if err != nil {
			return nil, err
		}
		out[i] = code
	}
	for i := 3; i < 7; i++ {
		out[i] = false
	}
	return out, nil
}
