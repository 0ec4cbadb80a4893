package kernels

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// epRows copies rows to the wire, from the wire, and from tokens to experts' zones.
func epRows() Kernel {
	k := Kernel{
		Name: "ep_rows", Serves: []ops.Op{ops.EPPack, ops.EPPackRows, ops.EPPlace, ops.EPPermute, ops.EPSpread, ops.EPPlace | ops.OnlyWeights, ops.EPPermute | ops.OnlyWeights},
		Primitives: []string{"ep_dispatch", "ep_combine"},
		Doc:        "copies rows, and the weights that travel along, to the wire, from it, or to the order of experts",
		Build:      rowsProgram,
	}
	for _, f := range []string{"ep_pack", "ep_pack_rows", "ep_place", "ep_permute", "ep_spread", "ep_place_weights", "ep_permute_weights", "ep_gaps"} {
		for _, unit := range []string{"1", "2", "4", "16"} {
			k.Functions = append(k.Functions, Function{f + "_" + unit, copyThreads, 0})
		}
	}
	return k
}

// copyThreads is the size of a copying threadgroup; each thread copies 16 bytes.
const copyThreads = 256

// payload is the contents of a row that travels: see row_copy.metal.
type payload struct {
	values, weight int // bytes
	packed         int // bytes of a row on the wire, which may include weights of several choices, and choices
	unit           int // bytes
}

// payloadOf returns the payload of arrays of rows [n, elements], with weights if there are any. packed is the number
// of bytes of a row on the wire, 0 if there is none.
func payloadOf(arrays []Operand, packed int) payload {
	t := arrays[0].Type
	p := payload{values: t.Shape[1] * t.DType.Size(), packed: packed}
	if len(arrays) == 2 {
		p.weight = arrays[1].Type.DType.Size()
	}
	for p.unit = 16; p.values%p.unit != 0 || p.weight%p.unit != 0 || packed%p.unit != 0; p.unit /= 2 {
	}
	if p.unit == 8 {
		p.unit = 4 // copying units of 4 bytes is as fast
	}
	return p
}

// weightsOf returns the payload of weights alone, which follow the given number of bytes of values on the wire.
func weightsOf(d graph.DType, values, packed int) payload {
	p := payload{values: values, weight: d.Size(), packed: packed}
	for p.unit = min(p.weight, 4); values%p.unit != 0 || packed%p.unit != 0; p.unit /= 2 {
	}
	return p
}

// suffix returns the suffix of functions for the unit.
func (p payload) suffix() string { return fmt.Sprintf("_%d", p.unit) }

// columns returns the number of threads copying one row.
func (p payload) columns() int { return (p.values+15)/16 + (p.weight+15)/16 }

// params returns the parameters struct rows_params.
func (p payload) params(items, choices, rows, experts, align int) Arg {
	return Params(items, p.values/p.unit, p.weight/p.unit, p.packed/p.unit, choices, rows, experts, align)
}

// launch returns a launch copying the given number of rows.
func (p payload) launch(function string, rows int, args ...Arg) Launch {
	return p.launchIn("ep_rows.metal", function, p.columns(), rows, args...)
}

// launchIn returns a launch of a function in a file, with the given number of threads per row.
func (p payload) launchIn(file, function string, columns, rows int, args ...Arg) Launch {
	wide := 1
	for wide < columns && wide < copyThreads {
		wide *= 2
	}
	high := copyThreads / wide
	l := Launch{
		Source: Source{File: file}, Function: function + p.suffix(), Args: args,
		Groups: [3]int{(columns + wide - 1) / wide, (rows + high - 1) / high, 1}, Threads: [3]int{wide, high, 1},
	}
	if rows == 0 {
		l.Groups = [3]int{}
	}
	return l
}

// gaps returns the launches zeroing the rows that pad experts' zones in the results.
func (p payload) gaps(in *Instr, values, weights Arg, rows int) []Launch {
	if in.Align <= 1 || rows == 0 {
		return nil
	}
	return []Launch{{
		Source: Source{File: "ep_rows.metal"}, Function: "ep_gaps" + p.suffix(),
		Args:   []Arg{Zones(), values, weights, p.params(0, 1, rows, in.Experts(), in.Align)},
		Groups: [3]int{(p.columns() + copyThreads - 1) / copyThreads, 1, in.Experts()}, Threads: [3]int{copyThreads, 1, 1},
	}}
}

// second returns of(1) if weights travel too, and otherwise of(0), which the kernel then does not read.
func second(of func(int) Arg, weights bool) Arg {
	if weights {
		return of(1)
	}
	return of(0)
}

// evenColumns refuses rows on the return path whose number of columns differs between ranks: on the wire they are
// padded to the longest, followed by the weights.
func evenColumns(in *Instr, rows Operand) error {
	b := &in.plan.Bufs[rows.Buf]
	if cols := b.Global.Shape[1]; b.Type.Shape[1]*in.Mesh.Parts(b.Spec.At(1)) != cols {
		return refuse("rows whose %d columns are split into parts that differ", cols)
	}
	return nil
}

func rowsProgram(in *Instr) (*Program, error) {
	prog := &Program{}
	if in.Op == ops.EPPackRows || in.Op == ops.EPSpread {
		if err := evenColumns(in, in.Args[0]); err != nil {
			return nil, err
		}
	}
	switch in.Op {
	case ops.EPPack:
		n := len(in.Args) - 1
		leave, tokens := in.Args[n].Type.Len(), in.Args[0].Type.Shape[0]
		p := payloadOf(in.Args[:n], in.Results[0].Type.Shape[1])
		if n == 2 {
			p.weight *= in.Args[1].Type.Shape[1] // a row has the weights of all its choices
		}
		prog.Launches = []Launch{p.launch("ep_pack", leave, In(0), second(In, n == 2), In(n), Out(0), p.params(leave, 1, tokens, 0, 0))}
	case ops.EPPackRows:
		n := len(in.Args) - 2
		p, items := payloadOf(in.Args[:n], in.Results[0].Type.Shape[1]), min(in.Args[n].Type.Len(), in.Results[0].Type.Shape[0])
		params := p.params(items, 1, in.Args[0].Type.Shape[0], in.Args[n+1].Type.Len(), in.Align)
		prog.Launches = []Launch{p.launch("ep_pack_rows", items, In(0), second(In, n == 2), In(n), In(n+1), Out(0), params)}
	case ops.EPPlace:
		wire := in.Args[0].Type.Shape
		p := payloadOf(in.Results, wire[1])
		rows, weights, choice, k := in.Results[0].Type.Shape[0], Out(0), In(1), 1
		if len(in.Results) == 2 {
			weights, choice, k = Out(1), In(3), in.plan.Bufs[in.Args[0].Buf].Packed[1].Len()
		}
		items := min(rows, in.Args[1].Type.Len())
		prog.Launches = []Launch{p.launch("ep_place", items, In(0), In(1), choice, Out(0), weights, p.params(items, k, wire[0], 0, 0))}
		prog.Launches = append(prog.Launches, p.gaps(in, Out(0), weights, rows)...)
	case ops.EPPermute:
		n := len(in.Args) - 2
		p, pairs := payloadOf(in.Args[:n], 0), in.Args[n].Type.Len()
		rows, weights := in.Results[0].Type.Shape[0], second(Out, n == 2)
		params := p.params(pairs, in.Args[n].Type.Shape[1], min(rows, in.Args[n+1].Type.Len()), in.Experts(), in.Align)
		prog.Launches = []Launch{p.launch("ep_permute", pairs, In(0), second(In, n == 2), In(n), In(n+1), Out(0), weights, params)}
		prog.Launches = append(prog.Launches, p.gaps(in, Out(0), weights, rows)...)
	case ops.EPPlace | ops.OnlyWeights:
		entry := in.plan.Bufs[in.Args[0].Buf].Packed
		p := weightsOf(entry[1].DType, int(entry[0].Bytes()), in.Args[0].Type.Shape[1])
		rows := in.Results[0].Type.Len()
		items := min(rows, in.Args[1].Type.Len())
		prog.Launches = []Launch{p.launchIn("ep_rows.metal", "ep_place_weights", 1, items, In(0), In(1), In(2), Out(0), p.params(items, entry[1].Len(), in.Args[0].Type.Shape[0], 0, 0))}
		p.values = 0
		prog.Launches = append(prog.Launches, p.gaps(in, Out(0), Out(0), rows)...)
	case ops.EPPermute | ops.OnlyWeights:
		p, pairs, rows := weightsOf(in.Args[0].Type.DType, 0, 0), in.Args[1].Type.Len(), in.Results[0].Type.Len()
		params := p.params(pairs, in.Args[1].Type.Shape[1], min(rows, in.Args[2].Type.Len()), in.Experts(), in.Align)
		prog.Launches = []Launch{p.launchIn("ep_rows.metal", "ep_permute_weights", 1, pairs, In(0), In(1), In(2), Out(0), params)}
		prog.Launches = append(prog.Launches, p.gaps(in, Out(0), Out(0), rows)...)
	case ops.EPSpread:
		n := len(in.Args) - 2
		p, pairs := payloadOf(in.Args[:n], in.Results[0].Type.Shape[2]), in.Args[n].Type.Len()
		params := p.params(pairs, 1, min(in.Args[0].Type.Shape[0], in.Args[n+1].Type.Len()), 0, 0)
		prog.Launches = []Launch{p.launch("ep_spread", pairs, In(0), second(In, n == 2), In(n), In(n+1), Out(0), params)}
	}
	return prog, nil
}
