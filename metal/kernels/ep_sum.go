package kernels

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// epSum adds the rows of each token, in the order of its choices.
func epSum() Kernel {
	k := Kernel{
		Name: "ep_sum", Serves: []ops.Op{ops.EPSum, ops.EPSumRanks, ops.EPSum | ops.Wire, ops.EPSumRanks | ops.Wire}, Primitives: []string{"ep_combine"},
		Doc:   "adds the rows of each token in the order of its choices, in f32, rounded at most once, and brings weights home",
		Build: sumProgram,
		Functions: []Function{
			{"ep_sum_f32", copyThreads, 0}, {"ep_sum_f32_2", copyThreads, 0}, {"ep_sum_f16", copyThreads, 0}, {"ep_sum_bf16", copyThreads, 0},
		},
	}
	for _, d := range append(mixed(), widened()...) {
		k.Functions = append(k.Functions, Function{"ep_sum_" + d, copyThreads, 0})
	}
	return k
}

// mixed returns the suffixes of functions reading one float type and writing another.
func mixed() []string {
	return []string{"f32_f16", "f32_bf16", "f16_f32", "f16_bf16", "bf16_f32", "bf16_f16"}
}

// epPackSums adds the rows of the zones for each received row.
func epPackSums() Kernel {
	k := Kernel{
		Name: "ep_pack_sums", Serves: []ops.Op{ops.EPPackSums, ops.EPSumMachine, ops.EPPackSums | ops.Wire, ops.EPSumMachine | ops.Wire}, Primitives: []string{"ep_combine"},
		Doc:   "adds the rows of a rank's experts for each row that has arrived, in the order of choices, in f32, rounded at most once, for the way home",
		Build: packSumsProgram,
		Functions: []Function{
			{"ep_pack_sums_f32", copyThreads, 0}, {"ep_pack_sums_f32_2", copyThreads, 0}, {"ep_pack_sums_f16", copyThreads, 0}, {"ep_pack_sums_bf16", copyThreads, 0},
		},
	}
	for _, d := range slices.Concat(mixed(), narrowed(), []string{"f8_e4m3", "f8_e5m2"}) {
		k.Functions = append(k.Functions, Function{"ep_pack_sums_" + d, copyThreads, 0})
	}
	return k
}

// epMachineSum adds the rows of each token returned through machines.
func epMachineSum() Kernel {
	k := Kernel{
		Name: "ep_machine_sum", Serves: []ops.Op{ops.EPSumMachines, ops.EPSumMachines | ops.Wire}, Primitives: []string{"ep_combine"},
		Doc:   "adds the sums of machines for each token, in the order of its choices, in f32, rounded at most once, and brings weights home",
		Build: sumMachinesProgram,
	}
	for _, d := range slices.Concat(mixed(), widened(), []string{"f32", "f32_2", "f16", "bf16"}) {
		k.Functions = append(k.Functions, Function{"ep_sum_machines_" + d, copyThreads, 0})
	}
	return k
}

// The location of a pair's row: see row_sum.metal.
const (
	atPlaces = iota // at its place
	atPairs         // at the pair's index among the pairs
	inCommon        // at its place, shared by the pairs of a token; the row has a weight for each
)

// rowSum is a sum of rows, each a payload, read and written in units.
type rowSum struct {
	payload
	t             graph.Type // of the sums, [sums, elements]
	choices, rows int        // capacity in rows
	where         int
	wire          bool // the weights of a row follow its values
	columns       int  // threads per sum; 0 for one per element or unit of weights
}

// typed returns the suffix of functions, and the bytes of a unit, for rows of type d aligned to `begin`
// bytes: the element size, or less for rows on the wire.
func typed(d graph.DType, begin int) (suffix string, unit int, err error) {
	suffix, err = float(d)
	switch {
	case d != graph.F32:
		return suffix, 2, err
	case begin%4 != 0:
		return suffix + "_2", 2, err
	}
	return suffix, 4, err
}

// converted is typed for functions reading rows of type d and writing them as type `to`: mixed types use
// units of 2 bytes.
func converted(d, to graph.DType, begin int) (suffix string, unit int, err error) {
	switch {
	case d.IsF8() && d == to:
		return d.String(), 2, nil
	case d.IsF8():
		suffix, err = float(to)
		return d.String() + "_" + suffix, 2, err
	case to.IsF8():
		suffix, err = float(d)
		return suffix + "_" + to.String(), 2, err
	}
	if suffix, unit, err = typed(d, begin); err != nil || d == to {
		return suffix, unit, err
	}
	as, err := float(to)
	return d.String() + "_" + as, 2, err
}

// wireOf returns the type of packed rows' values on the wire.
func wireOf(in *Instr, o Operand) graph.DType { return in.plan.Bufs[o.Buf].Packed[0].DType }

// launch returns the launch of a function with struct sum_params as its last argument.
func (s rowSum) launch(file, function string, unit int, args ...Arg) Launch {
	weights := 1
	if s.where == inCommon {
		weights = s.choices
	}
	step, weightStep, weightFirst := s.values, s.weight, 0
	if s.wire {
		step, weightFirst = s.values+weights*s.weight, s.values
		weightStep = step
	}
	columns := s.columns
	if columns == 0 {
		columns = max(s.t.Shape[1], s.choices*s.weight/unit)
	}
	wide := 1
	for wide < columns && wide < copyThreads {
		wide *= 2
	}
	high := copyThreads / wide
	params := Params(s.t.Shape[0], s.t.Shape[1], s.choices, s.rows, step/unit, s.weight/unit, weightStep/unit, weightFirst/unit, s.where)
	return Launch{
		Source: Source{File: file}, Function: function, Args: append(args, params),
		Groups: [3]int{(columns + wide - 1) / wide, (s.t.Shape[0] + high - 1) / high, 1}, Threads: [3]int{wide, high, 1},
	}
}

func sumProgram(in *Instr) (*Program, error) {
	// On the wire values and weights are in one array; in expert order they are in two.
	t, rows, zones := in.Results[0].Type, in.Results, in.Args[0].Type.DType != graph.U8
	if zones {
		rows = in.Args[:len(in.Args)-1]
	}
	d, p := rows[0].Type.DType, payloadOf(rows, 0)
	if !zones {
		if err := evenColumns(in, in.Results[0]); err != nil {
			return nil, err
		}
		d = wireOf(in, in.Args[0])
		p.values = onWire(d, t.Shape[1])
	}
	suffix, unit, err := converted(d, t.DType, p.weight)
	if err != nil {
		return nil, err
	}
	wire := in.Args[0].Type.Shape
	s := rowSum{payload: p, t: t, rows: wire[0], wire: !zones}
	weights, place := In(0), In(0) // placeholders are not read
	switch {
	case zones:
		n := len(in.Args) - 1
		place, weights = In(n), second(In, p.weight > 0)
		s.choices, s.where = in.Args[n].Type.Shape[1], atPlaces
	case in.op().Plain() == ops.EPSumRanks:
		place = In(1)
		s.choices, s.where = in.Args[1].Type.Shape[1], inCommon
	case len(in.Args) == 2:
		place = In(1)
		s.choices, s.where = in.Args[1].Type.Shape[1], atPlaces
	default: // rows on the wire are [tokens, choices, bytes]
		s.choices, s.where, s.rows = wire[1], atPairs, wire[0]*wire[1]
	}
	return &Program{Launches: []Launch{
		s.launch("ep_sum.metal", "ep_sum_"+suffix, unit, In(0), weights, place, Out(0), second(Out, len(in.Results) == 2)),
	}}, nil
}

// sumMachinesProgram adds rows of two arrays on the wire.
func sumMachinesProgram(in *Instr) (*Program, error) {
	if err := evenColumns(in, in.Results[0]); err != nil {
		return nil, err
	}
	t, place, rows := in.Results[0].Type, in.Args[2].Type, in.Args[0].Type.Shape[0]
	p, d := payloadOf(in.Results, 0), wireOf(in, in.Args[0])
	p.values = onWire(d, t.Shape[1])
	suffix, unit, err := converted(d, t.DType, p.weight)
	if err != nil {
		return nil, err
	}
	s := rowSum{payload: p, t: t, choices: place.Shape[1], rows: rows, where: inCommon, wire: true}
	return &Program{Launches: []Launch{
		s.launch("ep_machine_sum.metal", "ep_sum_machines_"+suffix, unit, In(0), In(1), In(2), Out(0), second(Out, len(in.Results) == 2)),
	}}, nil
}

// sumMachineProgram adds the rows passed back by a machine's members, for each row received from other
// machines.
func sumMachineProgram(in *Instr) (*Program, error) {
	entry, relay := in.plan.Bufs[in.Results[0].Buf].Packed, in.Args[1].Type
	if entry == nil {
		return nil, refuse("rows whose columns are split into parts that differ, with scales behind each rank's own")
	}
	d := entry[0].DType
	p := payload{values: onWire(d, entry[0].Len())}
	if d.IsF8() {
		entry = slices.Delete(slices.Clone(entry), 1, 2) // the scales, which belong to the values
	}
	if len(entry) == 2 {
		p.weight = entry[1].DType.Size()
	}
	suffix, unit, err := converted(d, d, p.weight)
	if err != nil {
		return nil, err
	}
	s := rowSum{payload: p, t: graph.T(d, relay.Shape[0], entry[0].Len()), choices: relay.Shape[1], rows: in.Args[0].Type.Shape[0], where: inCommon, wire: true}
	if d.IsF8() {
		return &Program{Launches: []Launch{s.packed("ep_pack_sums_"+suffix, d, in.Args[2].Type.Shape[1], In(0), In(0), In(1), In(2), Out(0))}}, nil
	}
	return &Program{Launches: []Launch{
		s.launch("ep_pack_sums.metal", "ep_pack_sums_"+suffix, unit, In(0), In(0), In(1), In(2), Out(0), Params(in.Args[2].Type.Shape[1]), Params(p.values/unit)),
	}}, nil
}

func packSumsProgram(in *Instr) (*Program, error) {
	if in.op().Plain() == ops.EPSumMachine {
		return sumMachineProgram(in)
	}
	if err := evenColumns(in, in.Args[0]); err != nil {
		return nil, err
	}
	n := len(in.Args) - 2
	rows, slots, room := in.Args[0].Type, in.Args[n].Type, in.Results[0].Type.Shape[0]
	p, wire := payloadOf(in.Args[:n], 0), wireOf(in, in.Results[0])
	suffix, unit, err := converted(rows.DType, wire, p.weight)
	if err != nil {
		return nil, err
	}
	s := rowSum{payload: p, t: graph.T(rows.DType, room, rows.Shape[1]), choices: slots.Shape[1], rows: rows.Shape[0], where: atPlaces}
	members := in.Args[n+1].Type.Shape[1]
	if wire.IsF8() {
		return &Program{Launches: []Launch{s.packed("ep_pack_sums_"+suffix, wire, members, In(0), second(In, n == 2), In(n), In(n+1), Out(0))}}, nil
	}
	return &Program{Launches: []Launch{
		s.launch("ep_pack_sums.metal", "ep_pack_sums_"+suffix, unit, In(0), second(In, n == 2), In(n), In(n+1), Out(0), Params(members), Params(rows.Shape[1]*wire.Size()/unit)),
	}}, nil
}
