package kernels

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/primitives"
)

// router scores experts and chooses the best for each token.
func router() Kernel {
	return Kernel{
		Name: "router", Serves: []ops.Op{ops.Router}, Primitives: []string{"router"},
		Doc:   "scores experts, and chooses the best of them for each token, of equals the lowest",
		Build: routerProgram,
		Functions: []Function{
			{"router_f32", 32 * routerTogether, threadgroupMemory},
			{"router_f16", 32 * routerTogether, threadgroupMemory},
			{"router_bf16", 32 * routerTogether, threadgroupMemory},
		},
		Tolerance: Tolerance{
			Absolute: 1.2e-38, Relative: 1e-5,
			Why: "scores are formed in f32, by the host in f64: an exponent of up to 88 in size is off by up to 88·2⁻²⁴, which is the relative error of its power, and what is less than the least normal number may be 0. Experts are the same where scores are equal, or further apart than that.",
		},
	}
}

const (
	// routerTogether is the largest number of tokens per threadgroup, with one
	// simdgroup each.
	routerTogether = 4
	// routerMemory is the threadgroup memory, in bytes, up to which a threadgroup serves several
	// tokens.
	routerMemory = 16 << 10
)

func routerProgram(in *Instr) (*Program, error) {
	r, ok := in.Prim.(primitives.RouteOp)
	if !ok {
		return nil, refuse("comes from %T, want router", in.Prim)
	}
	if in.Ragged() {
		return nil, refuse("routes rows of experts")
	}
	x := in.Args[0].Type
	suffix, err := float(x.DType)
	if err != nil {
		return nil, err
	}
	bias, biasKind := In(0), 0
	if len(in.Args) == 2 {
		bias = In(1)
		if biasKind = 1 + slices.Index([]graph.DType{graph.F32, graph.F16, graph.BF16}, in.Args[1].Type.DType); biasKind == 0 {
			return nil, refuse("a bias of type %s, want f32, f16 or bf16", in.Args[1].Type.DType)
		}
	}
	tokens, experts := x.Shape[0], x.Shape[1]
	words := 2*experts + 2*r.Groups + max(r.TopK, r.TopGroups) + r.TopK
	words = (words + 3) / 4 * 4
	together := max(1, min(routerTogether, routerMemory/(4*words)))
	mem, err := memory(together*words, "scores")
	if err != nil {
		return nil, err
	}
	score := slices.Index([]string{"", primitives.SigmoidScore, primitives.SqrtSoftplusScore, primitives.TopKSoftmaxScore}, r.Score)
	if score < 0 {
		return nil, refuse("no kernel for the score %q", r.Score)
	}
	scale := r.Scale
	if scale == 0 {
		scale = 1
	}
	first := in.Start(in.Args[0], 0)
	return &Program{
		Launches: []Launch{{
			Source: Source{File: "router.metal"}, Function: "router_" + suffix,
			Args: []Arg{In(0), bias, Out(0), Out(1), Out(2), Status(),
				Params(tokens, experts, r.TopK, score, r.Groups, r.TopGroups, r.GroupScore == "max", biasKind, r.Renormalize, r.Epsilon, scale, words)},
			Memory: mem, Groups: [3]int{(tokens + together - 1) / together, 1, 1}, Threads: [3]int{32 * together, 1, 1},
		}},
		Fault: func(record [StatusLen]int32) error {
			if record[0] == StatusClear {
				return nil
			}
			at := int(record[0])
			return r.NaNLogit(first+at/experts, at%experts)
		},
	}, nil
}
