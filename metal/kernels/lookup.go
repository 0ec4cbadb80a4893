package kernels

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// lookup serves operations that read elements at indices.
func lookup() Kernel {
	return Kernel{
		Name:       "lookup",
		Serves:     []string{"embedding", "gather", "take_along_axis", "one_hot"},
		Primitives: []string{"embedding", "gather", "take_along_axis", "one_hot"},
		Doc:        "elements that indices name",
		Functions:  append(append(sized([]int{1, 2, 4, 8}, "look_up", "take_along"), sized([]int{1, 2, 4}, "indicate")...), indexFunctions()...),
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
	if p, ok := in.Prim.(primitives.OneHotOp); ok {
		bits, err := storedOne(p.DType)
		return &Program{Launches: []Launch{launch("indicate", In(0), Out(0), Params(max(p.NumClasses, 1), out.Len(), bits))}}, err
	}
	x, index := in.Args[0].Type, in.Args[1].Type
	if x.DType.IsBlock() {
		return nil, refuse("looks blocks of %s up", x.DType)
	}
	function, axis := "look_up", 0
	var fault func([StatusLen]int32) error
	switch p := in.Prim.(type) {
	case primitives.GatherOp:
		axis, fault = p.Axis, rangeFault(x.Shape[p.Axis])
	case primitives.TakeAlongAxisOp:
		function, axis, fault = "take_along", p.Axis, axisFault(index, p.Axis, x.Shape[p.Axis])
	default:
		if in.Name != "embedding" {
			return nil, refuse("%s made by %T", in.Name, in.Prim)
		}
		fault = in.idFault(1, x.Shape[0])
	}
	_, n, inner := around(x, axis)
	along := index.Len()
	if function == "take_along" {
		along = index.Shape[axis]
	}
	return &Program{
		Launches: []Launch{
			checked(1, index.Len(), 0, n),
			launch(function, In(0), In(1), Out(0), Params(max(inner, 1), n, max(along, 1), out.Len())),
		},
		Fault: fault,
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
