package kernels

import "github.com/gomoe/gomoe/graph"

// Products of few rows read every element of a matrix once and do little else: see matvec.metal.
// They are selected by the program's number of rows, of all ranks together, because the bits differ
// from the tiles' and must not depend on the mesh.
const (
	matvecRows  = 16 // of experts, most of which then have one row or none
	matvecDense = 4  // of a product with one matrix: MATVEC_ROWS
)

// As in matvec.metal.
const (
	matvecSimds   = 4
	matvecMost    = 4
	matvecBlocks  = 2
	matvecWide    = 64
	matvecThreads = 256
)

func matvecFunctions(kernel string, rows ...string) []Function {
	var fs []Function
	for _, r := range rows {
		fs = append(fs, Function{Name: kernel + "_along" + r, Threads: matvecSimds * 32},
			Function{Name: kernel + "_across" + r, Threads: matvecThreads, Memory: matvecThreads * 4 / matvecWide / 2 * matvecWide * 4})
	}
	return fs
}

// fitsMatvec reports whether a matvec can read a matrix: its columns are contiguous, or else the
// summed elements, as required for blocks. The rows' elements must be contiguous, too.
func fitsMatvec(rows, matrix side) bool {
	if rows.elem.IsBlock() || rows.deep != 1 {
		return false
	}
	return matrix.deep == 1 || matrix.across() && !matrix.elem.IsBlock()
}

// matvecLaunch returns a launch, without arguments, for groups of rows, with the matrix's columns
// in the first dimension of the grid. suffix ends the function's name.
func matvecLaunch(kernel, suffix string, a, b side, c graph.DType, cols, groups int) (Launch, error) {
	constants, err := codes(a.elem, b.elem, c)
	if err != nil {
		return Launch{}, err
	}
	constants[4], constants[5], constants[6] = b.across(), a.fours(), b.fours()
	l := Launch{Source: Source{File: kernel + ".metal"}, Function: kernel + "_along" + suffix, Constants: constants}
	each := matvecMost * matvecSimds
	switch {
	case b.across():
		l.Function, l.Groups, l.Threads = kernel+"_across"+suffix, [3]int{pieces(cols, matvecWide), groups, 1}, [3]int{matvecThreads, 1, 1}
		return l, nil
	case b.elem.IsBlock():
		each = matvecBlocks * matvecSimds
	}
	l.Groups, l.Threads = [3]int{pieces(cols, each), groups, 1}, [3]int{matvecSimds * 32, 1, 1}
	return l, nil
}

// groupedMatvec multiplies the rows of experts with their matrices, the following argument, and, if
// there are weights, multiplies the results by them.
func groupedMatvec(in *Instr, x through, o groupedOperands, weights Arg, weighted bool) (*Program, error) {
	w, y := in.Args[1], in.Results[0]
	l, err := matvecLaunch("grouped_matvec", "", side{x.elem, x.apart, 1, nil}, side{w.Type.DType, o.line, o.step, nil}, y.Type.DType, o.cols, y.Type.Shape[0])
	if err != nil {
		return nil, err
	}
	low, high := o.matrix(w.Type.DType)
	l.Constants[7], l.Constants[8] = x.indexed, false
	l.Args = []Arg{x.x, In(1), Out(0), Zones(), weights, x.at, Params(in.Experts(), in.Align, o.cols, o.deep, x.apart, o.line, o.step, low, high, weighted)}
	return &Program{Launches: []Launch{l}}, nil
}

// matvecOf reports whether experts' rows are few, and their matrices fit.
func matvecOf(in *Instr, x through, o groupedOperands) bool {
	w, y := in.Args[1], in.Results[0]
	return in.plan.Bufs[y.Buf].Global.Shape[0] <= matvecRows && fitsMatvec(side{x.elem, x.apart, 1, nil}, side{w.Type.DType, o.line, o.step, nil})
}
