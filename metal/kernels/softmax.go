package kernels

import "github.com/gomoe/gomoe/lowering/ops"

func softmax() Kernel {
	return Kernel{
		Name: "softmax", Serves: []ops.Op{ops.Softmax, ops.SoftmaxGrad}, Primitives: []string{"softmax", "softmax_grad"},
		Doc:       "exponentials divided by their sum along an axis, and the gradient; a threadgroup per line",
		Functions: lineFunctions("softmax", "softmax_grad"),
		Build:     func(in *Instr) (*Program, error) { return lineProgram(in, "softmax.metal") },
		Tolerance: Tolerance{Relative: 4e-6, OfMax: 4e-7, Why: "exponentials and sums in f32, the host's sums in f64"},
	}
}

func logSoftmax() Kernel {
	return Kernel{
		Name: "log_softmax", Serves: []ops.Op{ops.LogSoftmax, ops.LogSoftmaxGrad, ops.LogSumExp},
		Primitives: []string{"log_softmax", "log_softmax_grad", "logsumexp"},
		Doc:        "logarithms of softmax and of its sums along an axis, and the gradient; a threadgroup per line",
		Functions:  lineFunctions("log_softmax", "log_softmax_grad", "logsumexp"),
		Build:      func(in *Instr) (*Program, error) { return lineProgram(in, "log_softmax.metal") },
		Tolerance:  Tolerance{Relative: 4e-6, OfMax: 1e-6, Why: "exponentials, logarithms and sums in f32, the host's sums in f64"},
	}
}

// lineFunctions returns functions handling one line per threadgroup, for each float type.
func lineFunctions(names ...string) []Function {
	var out []Function
	for _, name := range names {
		for _, t := range []string{"f32", "f16", "bf16"} {
			out = append(out, Function{Name: name + "_" + t, Threads: 256, Memory: teamRoom})
		}
	}
	return out
}

// lineFunction returns what the name of the function of an operation on lines begins with.
func lineFunction(in *Instr) string {
	return map[ops.Op]string{
		ops.Softmax: "softmax", ops.SoftmaxGrad: "softmax_grad", ops.LogSoftmax: "log_softmax", ops.LogSoftmaxGrad: "log_softmax_grad", ops.LogSumExp: "logsumexp",
		ops.RMSNorm: "rms_norm", ops.RMSNormGrad: "rms_norm_grad", ops.LayerNorm: "layer_norm", ops.LayerNormGrad: "layer_norm_grad",
		ops.CrossEntropy: "cross_entropy", ops.CrossEntropyGrad: "cross_entropy_grad",
	}[in.op()]
}

// lineProgram returns the launch of the function of the instruction's operation, on the
// lines along the instruction's axis.
func lineProgram(in *Instr, file string) (*Program, error) {
	x := in.Args[0].Type
	suffix, err := float(x.DType)
	if err != nil {
		return nil, err
	}
	p, err := paramsOf[struct{ Axis int }](in.Prim)
	if err != nil {
		return nil, err
	}
	l := linesOf(x, p.Axis)
	ragged, zones := in.raggedness(l.count)
	launch := Launch{Source: Source{File: file}, Function: lineFunction(in) + "_" + suffix, Groups: [3]int{l.count, 1, 1}, Threads: [3]int{team(l.n), 1, 1}}
	for i := range in.Args {
		launch.Args = append(launch.Args, In(i))
	}
	launch.Args = append(launch.Args, Out(0), zones, Params(append([]any{l.count, l.n, l.inner}, ragged...)...))
	return program(launch), nil
}

// program returns a program of the launches having at least one group.
func program(launches ...Launch) *Program {
	p := &Program{}
	for _, l := range launches {
		if l.Groups[0]*l.Groups[1]*l.Groups[2] > 0 {
			p.Launches = append(p.Launches, l)
		}
	}
	return p
}
