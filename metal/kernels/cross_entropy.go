package kernels

import (
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/primitives"
)

func crossEntropy() Kernel {
	return Kernel{
		Name: "cross_entropy", Serves: []ops.Op{ops.CrossEntropy, ops.CrossEntropyGrad}, Primitives: []string{"cross_entropy", "cross_entropy_grad"},
		Doc:       "the loss of each token, and its gradient, after a look at the labels; a threadgroup per token",
		Functions: append(lineFunctions("cross_entropy", "cross_entropy_grad"), Function{Name: "check_indices", Threads: checkThreads, Memory: 4 * checkThreads}),
		Build:     crossEntropyProgram,
		Tolerance: Tolerance{Absolute: 1e-6, Relative: 4e-6, OfMax: 4e-7, Why: "exponentials, logarithms and sums in f32, the host's sums in f64; a small loss is the difference of larger numbers"},
	}
}

func crossEntropyProgram(in *Instr) (*Program, error) {
	x := in.Args[0].Type
	suffix, err := float(x.DType)
	if err != nil {
		return nil, err
	}
	l := linesOf(x, x.Rank()-1)
	if in.Args[1].Ragged { // the host checks only the rows in use
		return nil, refuse("labels of ragged rows")
	}
	ragged, zones := in.raggedness(l.count)
	launch := Launch{
		Source: Source{File: "cross_entropy.metal"}, Function: lineFunction(in) + "_" + suffix, Groups: [3]int{l.count, 1, 1}, Threads: [3]int{team(l.n), 1, 1},
	}
	for i := range in.Args {
		launch.Args = append(launch.Args, In(i))
	}
	launch.Args = append(launch.Args, Out(0), zones, Params(append([]any{l.count, l.n}, ragged...)...))
	p := program(checked(1, in.Args[1].Type.Len(), primitives.IgnoredLabel, l.n), launch)
	p.Fault = in.indexFault(1, l.n)
	return p, nil
}
