package kernels

import (
	"math"
	"strings"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// scaledMatmul serves products with 8-bit floats in scaled blocks.
func scaledMatmul() Kernel {
	return Kernel{
		Name: "scaled_matmul", Serves: []ops.Op{ops.ScaledMatMul, ops.GroupedScaledMatMul}, Primitives: []string{"scaled_matmul", "grouped_scaled_matmul"},
		Doc:       "rows times matrices of 8-bit floats, in which each block of 128×128 has a scale, summed in f32, in tiles, or for few rows in vectors",
		Functions: decodedFunctions("scaled_matmul"), Stack: 1,
		Build: scaledProgram, Tolerance: tileTolerance(),
	}
}

// affineMatmul serves products with matrices in MLX's affine quantization.
func affineMatmul() Kernel {
	return Kernel{
		Name: "affine_matmul", Serves: []ops.Op{ops.AffineMatMul, ops.GroupedAffineMatMul}, Primitives: []string{"affine_matmul", "grouped_affine_matmul"},
		Doc:       "rows times matrices of integers of 4 or 8 bits with scales and biases, summed in f32, in tiles, or for few rows in vectors",
		Functions: decodedFunctions("affine_matmul"), Stack: 1,
		Build: affineProgram, Tolerance: tileTolerance(),
	}
}

func decodedFunctions(name string) []Function {
	return append(tileFunctions(name, anyBlocks), matvecFunctions(matvecName(name), "_1", "_4")...)
}

// matvecName returns the prefix of the names of a kernel's functions for few rows.
func matvecName(name string) string { return strings.TrimSuffix(name, "matmul") + "matvec" }

// decoded is a product of rows, argument 0, with matrices of height times width elements, decoded
// from argument 1 and from scales, argument 2.
type decoded struct {
	function      string
	transpose     bool
	layout        int // see decoded.metal
	height, width int
	group         int // elements of a line sharing a scale
	biases        Arg
}

func scaledProgram(in *Instr) (*Program, error) {
	w := in.Args[1].Type
	d := decoded{function: "scaled_matmul", height: w.Shape[w.Rank()-2], width: w.Shape[w.Rank()-1], group: 1, biases: In(2)} // no biases are read
	p, err := paramsOf[struct{ Transpose bool }](in.Prim)
	if err != nil {
		return nil, err
	}
	d.transpose = p.Transpose
	if w.DType == graph.F8_E5M2 {
		d.layout = 1
	}
	return d.program(in)
}

func affineProgram(in *Instr) (*Program, error) {
	w := in.Args[1].Type
	d := decoded{function: "affine_matmul", height: w.Shape[w.Rank()-2], biases: In(3)}
	p, err := paramsOf[struct {
		Transpose       bool
		Bits, GroupSize int
	}](in.Prim)
	if err != nil {
		return nil, err
	}
	d.transpose, d.layout, d.group = p.Transpose, p.Bits, p.GroupSize
	d.width = w.Shape[w.Rank()-1] * 32 / d.layout
	return d.program(in)
}

func (d decoded) program(in *Instr) (*Program, error) {
	x, w, scales, y := in.Args[0], in.Args[1].Type, in.Args[2].Type, in.Results[0]
	if x.Ragged != y.Ragged {
		return nil, refuse("rows of which only some are experts'")
	}
	if d.height*d.width > math.MaxInt32 {
		return nil, refuse("a matrix of %d×%d has more elements than 32 bits count", d.height, d.width)
	}
	constants := map[int]any{7: int32(0), 8: int32(d.layout)}
	for i, t := range []graph.DType{x.Type.DType, graph.F32, y.Type.DType} { // b_as is not read
		code, err := floatCode(t)
		if err != nil {
			return nil, err
		}
		constants[i] = code
	}
	code, err := floatCode(scales.DType)
	if err != nil {
		return nil, err
	}
	constants[7] = code
	cols, deep := d.width, d.height
	if d.transpose {
		cols, deep = deep, cols
	}
	rows := 1
	for _, n := range x.Type.Shape[:x.Type.Rank()-1] {
		rows *= n
	}
	if rows == 0 || cols == 0 {
		return &Program{}, nil
	}
	left := side{x.Type.DType, deep, 1, nil}
	constants[3], constants[4], constants[5], constants[6] = left.across(), !d.transpose, left.fours(), false
	// All rows have the same matrix if there is no stack of them.
	var matrix, scale groupedOperands
	if w.Rank() == 3 {
		matrix.expert, scale.expert = w.Shape[1]*w.Shape[2], scales.Shape[1]*scales.Shape[2]
	}
	low, high := matrix.matrix(w.DType)
	scalesLow, scalesHigh := scale.matrix(scales.DType)
	params := Params(in.Experts(), in.Align, rows, cols, deep, d.width, d.group, low, high, scalesLow, scalesHigh)
	if d.few(in) {
		return d.matvec(in, rows, cols, constants, params), nil
	}
	t, counts := in.tiling(rows, x.Type.DType, w.DType), In(0) // no counts are read
	tiles := pieces(rows, t.rows)
	if x.Ragged {
		t, counts = in.tiling(rowsPerExpert(in), x.Type.DType, w.DType), Zones()
		tiles = min(rows, (rows+in.Experts()*(t.rows-1))/t.rows)
	}
	return &Program{Launches: []Launch{{
		Source: Source{File: "decoded.metal"}, Function: d.function + "_" + t.name, Constants: constants,
		Args:   []Arg{In(0), In(1), Out(0), counts, In(2), d.biases, params},
		Groups: [3]int{pieces(cols, t.cols), tiles, 1}, Threads: [3]int{tileThreads, 1, 1},
	}}}, nil
}

// few reports whether a matvec multiplies the rows: up to the same number of rows, of all ranks
// together, as for products with plain matrices.
func (d decoded) few(in *Instr) bool {
	if in.Args[0].Ragged {
		return in.plan.Bufs[in.Results[0].Buf].Global.Shape[0] <= matvecRows
	}
	rows := in.plan.Bufs[in.Args[0].Buf].Global.Shape
	return graph.T(graph.U8, rows[:len(rows)-1]...).Len() <= matvecDense
}

// matvec multiplies few rows.
func (d decoded) matvec(in *Instr, rows, cols int, constants map[int]any, params Arg) *Program {
	constants[6] = d.width%16 == 0 // vectors of 16 bytes
	counts, suffix, groups := In(0), "_1", rows
	switch {
	case in.Args[0].Ragged:
		counts = Zones()
	case rows > 1:
		suffix, groups = "_4", pieces(rows, matvecDense)
	}
	l := Launch{Source: Source{File: "decoded_matvec.metal"}, Constants: constants, Args: []Arg{In(0), In(1), Out(0), counts, In(2), d.biases, params}}
	name, each, threads := matvecName(d.function)+"_along", matvecMost*matvecSimds, matvecSimds*32
	if !d.transpose {
		name, each, threads = matvecName(d.function)+"_across", matvecWide, matvecThreads
	}
	l.Function, l.Groups, l.Threads = name+suffix, [3]int{pieces(cols, each), groups, 1}, [3]int{threads, 1, 1}
	return &Program{Launches: []Launch{l}}
}
