package kernels

import (
	"fmt"
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// along serves operations along the lines of an axis.
func along() Kernel {
	var fs []Function
	for _, d := range []string{"f32", "bf16", "f16", "i32", "u32", "u8"} {
		for _, name := range []string{"running_sum", "extreme_place", "number"} {
			fs = append(fs, Function{Name: name + "_" + d, Threads: lineThreads})
		}
	}
	return Kernel{
		Name:       "along",
		Serves:     []ops.Op{ops.CumSum, ops.ArgMax, ops.ArgMin, ops.Iota},
		Primitives: []string{"cumsum", "argmax", "argmin", "iota"},
		Doc:        "running sums, places of extremes, and numbers, along an axis",
		Functions:  fs,
		Build:      alongProgram,
		Tolerance:  Tolerance{Why: "see Program.Tolerance: equal bits but of sums of floats"},
	}
}

func alongProgram(in *Instr) (*Program, error) {
	if in.Ragged() {
		return nil, refuse("goes along lines of ragged rows")
	}
	out := in.Results[0].Type
	x := out
	if len(in.Args) > 0 {
		x = in.Args[0].Type
	}
	switch d := x.DType; d {
	case graph.F32, graph.BF16, graph.F16, graph.I32, graph.U32, graph.U8:
	default:
		return nil, refuse("no elements of %s", d)
	}
	tolerance := &Tolerance{}
	var function string
	var axis, extra, threads int
	args := []Arg{In(0), Out(0)}
	switch in.Op {
	case ops.CumSum:
		p, err := paramsOf[struct {
			Axis    int
			Reverse bool
		}](in.Prim)
		if err != nil {
			return nil, err
		}
		function, axis, threads = "running_sum", p.Axis, 1
		if p.Reverse {
			extra = 1
		}
		if x.DType.IsFloat() {
			tolerance = nearly(0x1p-23, "sums of pairs of floats have 48 bits and the host's 53, which may round otherwise")
		}
	case ops.ArgMax, ops.ArgMin:
		p, err := paramsOf[struct{ Axis int }](in.Prim)
		if err != nil {
			return nil, err
		}
		function, axis, threads = "extreme_place", p.Axis, 32
		if in.Op == ops.ArgMin {
			extra = 1
		}
		if out.DType != graph.I32 && out.DType != graph.U32 {
			return nil, refuse("places of %s, only of i32 and u32", out.DType)
		}
	case ops.Iota:
		p, err := paramsOf[struct{ Dimension int }](in.Prim)
		if err != nil {
			return nil, err
		}
		function, axis, args, threads = "number", p.Dimension, []Arg{Out(0)}, out.Shape[p.Dimension]
		extra = in.Start(in.Results[0], axis)
	}
	outer, n, inner := x.Around(axis)
	lines := outer * inner
	count := lines
	if function == "number" {
		count = out.Len()
	}
	l := Launch{Source: Source{File: "along.metal"}, Function: fmt.Sprintf("%s_%s", function, x.DType)}
	l.Args = append(args, Params(count, max(n, 1), max(inner, 1), extra))
	if n == 0 {
		return nil, refuse("lines of no elements")
	}
	if lines*threads > math.MaxUint32 {
		return nil, refuse("takes %d threads, which 32 bits do not count", lines*threads)
	}
	l.Groups, l.Threads = line(lines * threads)
	return &Program{Launches: []Launch{l}, Tolerance: tolerance}, nil
}

// nearly returns a tolerance relative both to each result and to the largest one.
func nearly(far float64, why string) *Tolerance {
	return &Tolerance{Relative: far, OfMax: far, Why: why}
}
