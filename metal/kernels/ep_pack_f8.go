package kernels

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// epPackF8 packs rows of the zones in 8 bits.
func epPackF8() Kernel {
	k := Kernel{
		Name: "ep_pack_f8", Serves: []ops.Op{ops.EPPackRows | ops.Wire}, Primitives: []string{"ep_combine"},
		Doc:   "packs the rows of a rank's experts, and their weights, for the way home in 8 bits, with a scale for each block of 128",
		Build: packF8Program,
	}
	for _, d := range narrowed() {
		k.Functions = append(k.Functions, Function{"ep_pack_rows_" + d, copyThreads, 0})
	}
	return k
}

// wireBlock is the number of a row's elements sharing a scale in 8 bits.
const wireBlock = 128

// onWire returns the number of bytes of n values sent as type d, including the scales of their blocks.
func onWire(d graph.DType, n int) int {
	if d.IsF8() {
		return n + n/wireBlock*4
	}
	return n * d.Size()
}

// narrowed and widened return the suffixes of functions writing 8 bits, and of functions reading them.
func narrowed() (all []string) {
	return crossed([]string{"f32", "f16", "bf16"}, []string{"f8_e4m3", "f8_e5m2"})
}
func widened() (all []string) {
	return crossed([]string{"f8_e4m3", "f8_e5m2"}, []string{"f32", "f16", "bf16"})
}

func crossed(from, to []string) (all []string) {
	for _, a := range from {
		for _, b := range to {
			all = append(all, a+"_"+b)
		}
	}
	return all
}

// packed returns the launch of a function of ep_pack_f8.metal writing packed rows, with a simdgroup per
// block of a row. parts is the number of experts or members.
func (s rowSum) packed(function string, d graph.DType, parts int, args ...Arg) Launch {
	const unit = 2
	s.columns = max(s.t.Shape[1]/wireBlock*32, s.choices*s.weight/unit)
	return s.launch("ep_pack_f8.metal", function, unit, append(args, Params(parts), Params(onWire(d, s.t.Shape[1])/unit))...)
}

func packF8Program(in *Instr) (*Program, error) {
	if err := evenColumns(in, in.Args[0]); err != nil {
		return nil, err
	}
	n := len(in.Args) - 2
	rows, order, room, wire := in.Args[0].Type, in.Args[n].Type, in.Results[0].Type.Shape[0], wireOf(in, in.Results[0])
	if !wire.IsF8() {
		return nil, refuse("no kernel for rows that travel as %s, only as f8_e4m3 and f8_e5m2", wire)
	}
	p := payloadOf(in.Args[:n], 0)
	suffix, _, err := converted(rows.DType, wire, p.weight)
	if err != nil {
		return nil, err
	}
	items := min(order.Len(), room)
	s := rowSum{payload: p, t: graph.T(rows.DType, items, rows.Shape[1]), choices: 1, rows: rows.Shape[0], where: atPlaces}
	return &Program{Launches: []Launch{
		s.packed("ep_pack_rows_"+suffix, wire, in.Args[n+1].Type.Len(), In(0), second(In, n == 2), In(n), In(n+1), Out(0)),
	}}, nil
}
