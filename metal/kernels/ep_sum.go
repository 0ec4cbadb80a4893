package kernels

import "github.com/gomoe/gomoe/graph"

// epSum adds the rows of each token, in the order of its choices.
func epSum() Kernel {
	return Kernel{
		Name: "ep_sum", Serves: []string{"ep_sum"}, Primitives: []string{"ep_combine"},
		Doc:   "adds the rows of each token in the order of its choices, in f32, rounded once, and brings weights home",
		Build: sumProgram,
		Functions: []Function{
			{"ep_sum_f32", copyThreads, 0}, {"ep_sum_f32_2", copyThreads, 0}, {"ep_sum_f16", copyThreads, 0}, {"ep_sum_bf16", copyThreads, 0},
		},
	}
}

func sumProgram(in *Instr) (*Program, error) {
	t := in.Results[0].Type
	function, err := float(t.DType)
	if err != nil {
		return nil, err
	}
	function = "ep_sum_" + function
	p, unit := payloadOf(in.Results), 4
	if t.DType != graph.F32 {
		unit = 2
	} else if p.weight%4 != 0 {
		function, unit = function+"_2", 2 // rows on the wire may begin at any multiple of 2 bytes
	}
	// On the wire values and weights are in one array; in expert order they are
	// in two.
	values, weights := In(0), In(0)
	place, order := 1, 1
	rows, step, weightStep, weightFirst := in.Args[0].Type.Shape[0], p.values+p.weight, p.values+p.weight, p.values
	zones := in.Args[0].Type.DType != graph.U8
	if zones {
		place, order = len(in.Args)-2, len(in.Args)-1
		weights = second(In, p.weight > 0)
		step, weightStep, weightFirst = p.values, p.weight, 0
	}
	pairs := in.Args[place].Type.Len()
	k := choices(pairs, t)
	params := Params(t.Shape[0], t.Shape[1], k, rows, in.Args[order].Type.Len(), step/unit, p.weight/unit, weightStep/unit, weightFirst/unit, zones)
	columns := max(t.Shape[1], k*p.weight/unit)
	wide := 1
	for wide < columns && wide < copyThreads {
		wide *= 2
	}
	high := copyThreads / wide
	l := Launch{
		Source: Source{File: "ep_sum.metal"}, Function: function,
		Args:   []Arg{values, weights, In(place), In(order), Out(0), second(Out, len(in.Results) == 2), params},
		Groups: [3]int{(columns + wide - 1) / wide, (t.Shape[0] + high - 1) / high, 1}, Threads: [3]int{wide, high, 1},
	}
	return &Program{Launches: []Launch{l}}, nil
}
