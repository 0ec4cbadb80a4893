package kernels

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// reduce serves reductions over axes.
func reduce() Kernel {
	k := Kernel{
		Name:       "reduce",
		Serves:     []ops.Op{ops.ReduceSum, ops.ReduceProd, ops.ReduceMax, ops.ReduceMin},
		Primitives: []string{"reduce_sum", "reduce_prod", "reduce_max", "reduce_min"},
		Doc:        "sums, products and extremes over axes",
		Build:      reduceProgram,
		Tolerance:  Tolerance{Why: "see Program.Tolerance: equal bits but of sums of floats"},
	}
	for _, form := range []string{"lines", "columns"} {
		for _, t := range []string{"f32_f32", "bf16_f32", "bf16_bf16", "f32_bf16", "f16_f32", "f16_f16", "f32_f16", "i32_i32", "u32_u32", "u8_u8"} {
			for _, op := range []string{"sum", "prod", "max", "min"} {
				if op != "prod" || t[0] == 'i' || t[0] == 'u' {
					k.Functions = append(k.Functions, Function{Name: "reduce_" + form + "_" + op + "_" + t, Threads: lineThreads})
				}
			}
		}
	}
	return k
}

// If the order of additions is free, a long axis is reduced in chunks: chunks of lineChunk
// contiguous elements by 8 threads, and chunks of columnChunk rows by one thread per column.
const (
	lineChunk   = 512
	columnChunk = 64
)

// reduceStep is one launch, reducing the middle one of three dimensions in chunks.
type reduceStep struct{ outer, n, inner, chunk int }

func (s reduceStep) chunks() int { return max(1, (s.n+s.chunk-1)/s.chunk) }

// reduceSteps returns the steps reducing the axes, from the last to the first. If any order is
// allowed, adjacent axes are merged, and long ones are reduced in chunks first.
func reduceSteps(shape, axes []int, anyOrder bool) []reduceStep {
	size := func(shape []int) int {
		n := 1
		for _, s := range shape {
			n *= s
		}
		return n
	}
	var steps []reduceStep
	behind := len(shape) // dimensions from here on are already reduced, or kept in inner
	inner := 1
	for i := len(axes) - 1; i >= 0; i-- {
		last, first := axes[i], axes[i]
		for anyOrder && i > 0 && axes[i-1] == first-1 {
			i--
			first = axes[i]
		}
		inner *= size(shape[last+1 : behind])
		s := reduceStep{outer: size(shape[:first]), n: size(shape[first : last+1]), inner: inner}
		behind = first
		for most := map[bool]int{true: lineChunk, false: columnChunk}[inner == 1]; anyOrder && s.n > 2*most; {
			s.chunk = most
			steps = append(steps, s)
			s.n = s.chunks()
		}
		s.chunk = max(1, s.n)
		steps = append(steps, s)
	}
	return steps
}

func reduceProgram(in *Instr) (*Program, error) {
	prim := in.Prim
	if in.Does != nil {
		prim = in.Does
	}
	var axes []int
	var op string
	x, out := in.Args[0].Type, in.Results[0].Type
	from := x.DType
	if from == graph.Bool { // the largest and smallest of bools are computed with 0 and 1
		from = graph.U8
	}
	anyOrder := !from.IsFloat()
	of, err := paramsOf[struct{ Axes []int }](prim)
	if err != nil {
		return nil, err
	}
	switch axes, op = of.Axes, strings.TrimPrefix(prim.Name(), "reduce_"); op {
	case "sum":
		sum, err := paramsOf[struct{ Unordered bool }](prim)
		if err != nil {
			return nil, err
		}
		anyOrder = anyOrder || sum.Unordered
	case "max", "min":
		anyOrder = true
	case "prod":
	default:
		return nil, refuse("%s made by %s", in.Name(), prim.Name())
	}
	switch {
	case len(axes) == 0:
		return nil, refuse("reduces no axes")
	case from.IsFloat() && op == "prod":
		return nil, refuse("products of floats are made in f64, which is wider than two floats")
	case from == graph.F64 || from == graph.I64:
		return nil, refuse("no elements of %s", from)
	case in.Ragged() && (axes[0] == 0 || !in.Results[0].Ragged):
		return nil, refuse("reduces over ragged rows")
	}
	left := 1
	for d, n := range x.Shape {
		if !slices.Contains(axes, d) {
			left *= n
		}
	}
	if axes[len(axes)-1] >= x.Rank() || left != out.Len() {
		return nil, refuse("reduces other axes of %s to %s than %s has", x, out, prim.Name())
	}
	p := &Program{}
	to, smallest := from, x.DType == graph.Bool && op == "min"
	if smallest { // the smallest of no bools is true, and not the largest u8
		op = "min"
		for _, a := range axes {
			if x.Shape[a] == 0 {
				return nil, refuse("the least of no bool")
			}
		}
	}
	steps := reduceSteps(x.Shape, axes, anyOrder)
	arg := In(0)
	for i, s := range steps {
		result := Out(0)
		if to = out.DType; to == graph.Bool {
			to = graph.U8
		}
		elements := s.outer * s.chunks() * s.inner
		if i < len(steps)-1 {
			if from.IsFloat() {
				to = graph.F32
			}
			result = Scratch(len(p.Scratch))
			p.Scratch = append(p.Scratch, max(4, elements*to.Size()))
		}
		form, threads := "lines", 8*elements
		if s.inner > 1 {
			form, threads = "columns", elements
		}
		if threads > math.MaxUint32 {
			return nil, refuse("takes %d threads, which 32 bits do not count", threads)
		}
		row, counts := max(1, elements), arg
		if in.Ragged() {
			row, counts = elements/max(1, x.Shape[0]), Zones()
		}
		l := Launch{Source: Source{File: "reduce.metal"}, Function: fmt.Sprintf("reduce_%s_%s_%s_%s", form, op, from, to)}
		l.Args = []Arg{arg, result, counts, Params(elements, s.n, s.chunk, s.chunks(), s.inner, max(1, row), in.Experts(), in.Align)}
		l.Groups, l.Threads = line(threads)
		p.Launches = append(p.Launches, l)
		arg, from = result, to
	}
	if op == "sum" && to.IsFloat() {
		p.Tolerance = &Tolerance{Relative: float64(len(steps)) * 0x1p-23, OfMax: 0x1p-30,
			Why: "sums of pairs of floats have 48 bits and the host's 53, which may round otherwise"}
		if len(steps) > len(axes) || anyOrder {
			p.Tolerance.Relative, p.Tolerance.OfMax = 0x1p-20, 0x1p-20
			p.Tolerance.Why = "sums of chunks are rounded to f32, the host's are not"
		}
	} else {
		p.Tolerance = &Tolerance{}
	}
	return p, nil
}
