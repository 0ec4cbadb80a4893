package kernels

import "github.com/gomoe/gomoe/graph"

// epSum adds the rows of each token, in the order of its choices.
func epSum() Kernel {
	return Kernel{
		Name: "ep_sum", Serves: []string{"ep_sum"}, Primitives: []string{"ep_combine"},
		Doc:   "adds the rows of each token in the order of its choices, in f32, rounded at most once, and brings weights home",
		Build: sumProgram,
		Functions: []Function{
			{"ep_sum_f32", copyThreads, 0}, {"ep_sum_f32_2", copyThreads, 0}, {"ep_sum_f16", copyThreads, 0}, {"ep_sum_bf16", copyThreads, 0},
			{"ep_sum_f16_f32", copyThreads, 0}, {"ep_sum_bf16_f32", copyThreads, 0},
		},
	}
}

// Where the row of a pair lies: see ep_sum.metal.
const (
	atPlaces = iota // at its place
	inZones         // in the zones of experts, at the row that is listed for its place
	atPairs         // where the pair lies among the pairs
)

func sumProgram(in *Instr) (*Program, error) {
	// On the wire values and weights are in one array; in expert order they are in two. Rows
	// on the wire have the type of the result.
	t, payload, zones := in.Results[0].Type, in.Results, in.Args[0].Type.DType != graph.U8
	if zones {
		payload = in.Args[:len(in.Args)-2]
	}
	d := payload[0].Type.DType
	function, err := float(d)
	if err != nil {
		return nil, err
	}
	function = "ep_sum_" + function
	if d != t.DType {
		function += "_" + t.DType.String()
	}
	p, unit := payloadOf(payload), 4
	if d != graph.F32 {
		unit = 2
	} else if p.weight%4 != 0 {
		function, unit = function+"_2", 2 // rows on the wire may begin at any multiple of 2 bytes
	}
	values, weights, where := In(0), In(0), atPlaces
	place, order := 1, 1
	wire := in.Args[0].Type
	rows, step, weightStep, weightFirst := wire.Shape[0], p.values+p.weight, p.values+p.weight, p.values
	places, k := 0, 0
	if zones {
		place, order, where = len(in.Args)-2, len(in.Args)-1, inZones
		weights = second(In, p.weight > 0)
		step, weightStep, weightFirst = p.values, p.weight, 0
	}
	if len(in.Args) > 1 {
		k, places = in.Args[place].Type.Shape[1], in.Args[order].Type.Len()
	} else { // rows on the wire are [tokens, choices, bytes]
		place, order, where = 0, 0, atPairs
		k, rows = wire.Shape[1], wire.Shape[0]*wire.Shape[1]
	}
	params := Params(t.Shape[0], t.Shape[1], k, rows, places, step/unit, p.weight/unit, weightStep/unit, weightFirst/unit, where)
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
