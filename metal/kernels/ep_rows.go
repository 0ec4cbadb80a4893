package kernels

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// epRows copies rows to the wire, from the wire, and from tokens to experts' zones.
func epRows() Kernel {
	k := Kernel{
		Name: "ep_rows", Serves: []ops.Op{ops.EPPack, ops.EPPackRows, ops.EPPlace, ops.EPSpread, ops.EPPlace | ops.OnlyWeights},
		Primitives: []string{"ep_dispatch", "ep_combine"},
		Doc:        "copies rows, and the weights that travel along, to the wire, from it, or to the order of experts",
		Build:      rowsProgram,
	}
	for _, f := range []string{"ep_move", "ep_gaps"} {
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

// weightsOf returns the payload of weights alone: the first is at that byte, and rows have that stride.
func weightsOf(d graph.DType, first, stride int) payload {
	p := payload{weight: d.Size()}
	for p.unit = min(p.weight, 4); first%p.unit != 0 || stride%p.unit != 0; p.unit /= 2 {
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

// rowPlace locates the rows of an operand: strides, and the first weight's location, in bytes.
type rowPlace struct{ step, weightStep, weightFirst int }

// inArrays locates rows whose values and weights are in separate arrays, with k weights per row.
func (p payload) inArrays(k int) rowPlace { return rowPlace{p.values, k * p.weight, 0} }

// onWire locates packed rows.
func (p payload) onWire() rowPlace { return rowPlace{p.packed, p.packed, p.values} }

// move returns the launch moving rows: args are the source, its weights, the index, the choices, the counts, the destination and its weights.
func (p payload) move(items, rows, choices, experts, clear int, from, to rowPlace, args ...Arg) Launch {
	u := p.unit
	params := Params(items, p.values/u, p.weight/u, rows, choices, experts, clear,
		from.step/u, from.weightStep/u, from.weightFirst/u, to.step/u, to.weightStep/u, to.weightFirst/u)
	return p.launchIn("ep_rows.metal", "ep_move", p.columns(), items, append(args, params)...)
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
	x, y := in.Args[0].Type, in.Results[0].Type
	switch in.Op {
	case ops.EPPack:
		n := len(in.Args) - 1
		p, k := payloadOf(in.Args[:n], y.Shape[1]), 1
		if n == 2 {
			k = in.Args[1].Type.Shape[1]
			p.weight *= k // a row has the weights of all its choices
		}
		return &Program{Launches: []Launch{p.move(in.Args[n].Type.Len(), x.Shape[0], 1, 0, 0, p.inArrays(1), p.onWire(), In(0), second(In, n == 2), In(n), In(n), In(n), Out(0), Out(0))}}, nil
	case ops.EPPackRows, ops.EPSpread:
		if err := evenColumns(in, in.Args[0]); err != nil {
			return nil, err
		}
		n, experts, clear, counts := len(in.Args)-1, 0, 1, 0
		if in.Op == ops.EPPackRows {
			n--
			experts, clear, counts = in.Args[n+1].Type.Len(), 0, n+1
		}
		p, items := payloadOf(in.Args[:n], y.Shape[len(y.Shape)-1]), in.Args[n].Type.Len()
		if in.Op == ops.EPPackRows {
			items = min(items, y.Shape[0])
		}
		return &Program{Launches: []Launch{p.move(items, x.Shape[0], 1, experts, clear, p.inArrays(1), p.onWire(), In(0), second(In, n == 2), In(n), In(n), In(counts), Out(0), Out(0))}}, nil
	}
	return placeProgram(in)
}

// placeProgram copies rows, or their weights alone, into expert order: packed rows, or tokens with weights in a separate
// array.
func placeProgram(in *Instr) (*Program, error) {
	x, y, packed := in.Args[0].Type, in.Results[0].Type, in.plan.Bufs[in.Args[0].Buf].Packed
	rows, items, n, stride := y.Shape[0], min(y.Shape[0], in.Args[1].Type.Len()), len(in.Results), x.Shape[1]*x.DType.Size()
	if in.op().Has(ops.OnlyWeights) {
		k, first := x.Shape[1], 0
		if packed != nil {
			k, first = packed[1].Len(), int(packed[0].Bytes())
		}
		p := weightsOf(y.DType, first, stride)
		move := p.move(items, x.Shape[0], k, 0, 0, rowPlace{0, stride, first}, rowPlace{0, p.weight, 0}, In(0), In(0), In(1), In(2), In(1), Out(0), Out(0))
		return &Program{Launches: append([]Launch{move}, p.gaps(in, Out(0), Out(0), rows)...)}, nil
	}
	p := payloadOf(in.Results, 0)
	k, choice, weights, from := 1, In(1), In(0), p.inArrays(1)
	switch {
	case packed != nil:
		p = payloadOf(in.Results, stride)
		if from = p.onWire(); n == 2 {
			k, choice = packed[1].Len(), In(3)
		}
	case n == 2:
		k, choice, weights = in.Args[4].Type.Shape[1], In(3), In(4)
		from = p.inArrays(k)
	}
	move := p.move(items, x.Shape[0], k, 0, 0, from, p.inArrays(1), In(0), weights, In(1), choice, In(1), Out(0), second(Out, n == 2))
	return &Program{Launches: append([]Launch{move}, p.gaps(in, Out(0), second(Out, n == 2), rows)...)}, nil
}
