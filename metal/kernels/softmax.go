package kernels

func softmax() Kernel {
	return Kernel{
		Name: "softmax", Serves: []string{"softmax", "softmax_grad"}, Primitives: []string{"softmax", "softmax_grad"},
		Doc:       "exponentials divided by their sum along an axis, and the gradient; a threadgroup per line",
		Functions: lineFunctions("softmax", "softmax_grad"),
		Build:     func(in *Instr) (*Program, error) { return lineProgram(in, "softmax.metal") },
		Tolerance: Tolerance{Relative: 4e-6, OfMax: 4e-7, Why: "exponentials and sums in f32, the host's sums in f64"},
	}
}

func logSoftmax() Kernel {
	return Kernel{
		Name: "log_softmax", Serves: []string{"log_softmax", "log_softmax_grad", "logsumexp"},
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

// lineProgram returns the launch of the function with the instruction's name, on the
// lines along the instruction's axis.
func lineProgram(in *Instr, file string) (*Program, error) {
	x := in.Args[0].Type
	suffix, err := float(x.DType)
	if err != nil {
		return nil, err
	}
	axis, err := axisOf(in.Prim)
	if err != nil {
		return nil, err
	}
	l := linesOf(x, axis)
	ragged, zones := in.raggedness(l.count)
	launch := Launch{Source: Source{File: file}, Function: in.Name + "_" + suffix, Groups: [3]int{l.count, 1, 1}, Threads: [3]int{team(l.n), 1, 1}}
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
