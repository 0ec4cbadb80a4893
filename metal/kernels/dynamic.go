package kernels

import (
	"slices"

	"github.com/gomoe/gomoe/lowering/ops"
)

// dynamic serves operations on boxes with start indices as arguments.
func dynamic() Kernel {
	return Kernel{
		Name:       "dynamic",
		Serves:     []ops.Op{ops.DynamicSlice, ops.DynamicUpdateSlice},
		Primitives: []string{"dynamic_slice", "dynamic_update_slice"},
		Doc:        "a box read from, or written to, where start indices say",
		Functions:  moveFunctions(),
		Build:      dynamicProgram,
	}
}

func dynamicProgram(in *Instr) (*Program, error) {
	if in.Ragged() {
		return nil, refuse("cuts ragged rows")
	}
	x, out := in.Args[0].Type, in.Results[0].Type
	if in.Op == ops.DynamicSlice {
		b := box{shape: out.Shape, to: rowMajor(out.Shape), from: rowMajor(x.Shape)}
		return in.dynamicBox(nil, b, x.Shape, b.from, 1, In(0), moveFrom)
	}
	update := in.Args[1].Type
	one := []int{1}
	if update.Equal(out) { // the result may alias the update
		l, err := in.move(box{shape: []int{out.Len()}, to: one, from: one}, out.DType, Out(0), In(1), In(1), movePlain)
		return &Program{Launches: []Launch{l}}, err
	}
	l, err := in.move(box{shape: []int{out.Len()}, to: one, from: one}, out.DType, Out(0), In(0), In(0), movePlain)
	if err != nil {
		return nil, err
	}
	b := box{shape: update.Shape, to: rowMajor(out.Shape), from: rowMajor(update.Shape)}
	return in.dynamicBox([]Launch{l}, b, out.Shape, b.to, 2, In(1), moveTo)
}

// dynamicBox adds to ls the copy of a box. The box starts, in an array of the given shape and
// strides, at the start indices in the arguments from first on, clamped so that it fits.
func (in *Instr) dynamicBox(ls []Launch, b box, shape, strides []int, first int, source Arg, kind moveKind) (*Program, error) {
	if slices.Contains(b.shape, 0) {
		return &Program{Launches: ls}, nil
	}
	for d := range shape {
		l := Launch{Source: Source{File: "move.metal"}, Function: "box_start"}
		l.Args = []Arg{In(first + d), Scratch(0), Params(shape[d]-b.shape[d], strides[d], d == 0)}
		l.Groups, l.Threads = line(1)
		ls = append(ls, l)
	}
	extra := Scratch(0)
	if len(shape) == 0 {
		kind, extra = movePlain, source
	}
	l, err := in.move(b, in.Results[0].Type.DType, Out(0), source, extra, kind)
	return &Program{Launches: append(ls, l), Scratch: []int{16}}, err
}
