package kernels

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// lookup serves operations reading elements at indices.
func lookup() Kernel {
	return Kernel{
		Name:       "lookup",
		Serves:     []ops.Op{ops.Embedding, ops.EmbeddingPart, ops.Gather, ops.TakeAlongAxis, ops.OneHot},
		Primitives: []string{"embedding", "gather", "take_along_axis", "one_hot"},
		Doc:        "elements that indices name",
		Functions:  append(append(sized([]int{1, 2, 4, 8}, "look_up", "look_up_part", "take_along"), sized([]int{1, 2, 4}, "indicate")...), indexFunctions()...),
		Build:      lookupProgram,
	}
}

func lookupProgram(in *Instr) (*Program, error) {
	if in.Ragged() {
		return nil, refuse("looks ragged rows up")
	}
	out := in.Results[0].Type
	size := out.DType.Size()
	launch := func(function string, args ...Arg) Launch {
		l := Launch{Source: Source{File: "lookup.metal"}, Function: fmt.Sprintf("%s_%d", function, size), Args: args}
		l.Groups, l.Threads = line(out.Len())
		return l
	}
	if in.Op == ops.OneHot {
		p, err := paramsOf[struct{ NumClasses int }](in.Prim)
		if err != nil {
			return nil, err
		}
		bits, err := storedOne(out.DType)
		return &Program{Launches: []Launch{launch("indicate", In(0), Out(0), Params(max(p.NumClasses, 1), out.Len(), bits))}}, err
	}
	x, index := in.Args[0].Type, in.Args[1].Type
	if x.DType.IsBlock() {
		return nil, refuse("looks blocks of %s up", x.DType)
	}
	function, axis, first, all := "look_up", 0, 0, x.Shape[0]
	switch in.Op {
	case ops.Gather, ops.TakeAlongAxis:
		p, err := paramsOf[struct{ Axis int }](in.Prim)
		if err != nil {
			return nil, err
		}
		if in.Op == ops.TakeAlongAxis {
			function = "take_along"
		}
		axis, all = p.Axis, x.Shape[p.Axis]
	case ops.EmbeddingPart:
		function, first, all = "look_up_part", in.Start(in.Args[0], 0), in.plan.Bufs[in.Args[0].Buf].Global.Shape[0]
	}
	_, n, inner := x.Around(axis)
	along := index.Len()
	if function == "take_along" {
		along = index.Shape[axis]
	}
	return &Program{
		Launches: []Launch{
			checked(1, index.Len(), 0, all),
			launch(function, In(0), In(1), Out(0), Params(max(inner, 1), n, max(along, 1), out.Len(), first)),
		},
		Fault: in.indexFault(1, all),
	}, nil
}

// storedOne returns the bits of 1 in element type d, which has at most 4 bytes.
func storedOne(d graph.DType) (uint32, error) {
	if d.Size() > 4 || d.IsBlock() {
		return 0, refuse("makes elements of %s", d)
	}
	one := array.New(graph.T(d))
	one.Fill(1)
	var bits uint32
	for i, b := range one.Bytes() {
		bits |= uint32(b) << (8 * i)
	}
	return bits, nil
}
