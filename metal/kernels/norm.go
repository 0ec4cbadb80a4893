package kernels

import "github.com/gomoe/gomoe/lowering/ops"

func rmsNorm() Kernel {
	return Kernel{
		Name: "rms_norm", Serves: []ops.Op{ops.RMSNorm, ops.RMSNormGrad, ops.RMSNormGainGrad},
		Primitives: []string{"rms_norm", "rms_norm_grad", "rms_norm_gain_grad"},
		Doc:        "rows divided by the root of their mean square, and the gradients; a threadgroup per row",
		Functions:  append(lineFunctions("rms_norm", "rms_norm_grad", "rms_inverses"), columnFunctions("rms_gain")...),
		Build:      func(in *Instr) (*Program, error) { return normProgram(in, "rms") },
		Tolerance:  normTolerance(),
	}
}

func layerNorm() Kernel {
	return Kernel{
		Name: "layer_norm", Serves: []ops.Op{ops.LayerNorm, ops.LayerNormGrad, ops.LayerNormGainGrad},
		Primitives: []string{"layer_norm", "layer_norm_grad", "layer_norm_gain_grad"},
		Doc:        "rows with mean 0 and variance 1, and the gradients; a threadgroup per row",
		Functions:  append(lineFunctions("layer_norm", "layer_norm_grad", "layer_moments"), columnFunctions("layer_gain", "layer_bias")...),
		Build:      func(in *Instr) (*Program, error) { return normProgram(in, "layer") },
		Tolerance:  normTolerance(),
	}
}

func normTolerance() Tolerance {
	return Tolerance{Relative: 2e-6, OfMax: 1e-6, Why: "sums in f32, the host's in f64"}
}

// columnFunctions returns functions summing over rows, and the function adding the chunks' sums.
func columnFunctions(names ...string) []Function {
	var out []Function
	for _, t := range []string{"f32", "f16", "bf16"} {
		for _, name := range names {
			out = append(out, Function{Name: name + "_" + t, Threads: 32 * columnTeams, Memory: 32 * columnTeams * 4})
		}
		out = append(out, Function{Name: "sum_chunks_" + t, Threads: 256})
	}
	return out
}

// normProgram returns the launches of a norm of the given kind, or of its gradient.
func normProgram(in *Instr, kind string) (*Program, error) {
	x := in.Args[0].Type
	suffix, err := float(x.DType)
	if err != nil {
		return nil, err
	}
	op, err := paramsOf[struct{ Eps float64 }](in.Prim)
	if err != nil {
		return nil, err
	}
	l := linesOf(x, x.Rank()-1)
	ragged, zones := in.raggedness(l.count)
	file := kind + "_norm.metal"
	params := Params(append(append([]any{l.count, l.n}, ragged...), op.Eps)...)
	launch := Launch{Source: Source{File: file}, Function: lineFunction(in) + "_" + suffix, Groups: [3]int{l.count, 1, 1}, Threads: [3]int{team(l.n), 1, 1}}
	if in.Op != ops.RMSNormGainGrad && in.Op != ops.LayerNormGainGrad {
		for i := range in.Args {
			launch.Args = append(launch.Args, In(i))
		}
		launch.Args = append(launch.Args, Out(0), zones, params)
		return program(launch), nil
	}
	// First the rows' moments, then the sums over rows.
	first, moments := "rms_inverses_", 1
	if kind == "layer" {
		first, moments = "layer_moments_", 2
	}
	launch.Function, launch.Args = first+suffix, []Arg{In(0), Scratch(0), zones, params}
	args := []Arg{In(0), In(1), Scratch(0)}
	launches := append([]Launch{launch}, in.columnSums(file, kind+"_gain_"+suffix, args, l.count, l.n, 1, 0, op.Eps)...)
	if kind == "layer" {
		launches = append(launches, in.columnSums(file, "layer_bias_"+suffix, args, l.count, l.n, 1, 1, op.Eps)...)
	}
	p := program(launches...)
	p.Scratch = []int{max(l.count*moments, 1) * 4, columnScratch(l.count, l.n)}
	return p, nil
}
