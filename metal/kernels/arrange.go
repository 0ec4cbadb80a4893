package kernels

import (
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/lowering/ops"
)

// arrange serves operations that only move or repeat elements.
func arrange() Kernel {
	return Kernel{
		Name:       "arrange",
		Serves:     []ops.Op{ops.BroadcastInDim, ops.Transpose, ops.Slice, ops.Rev, ops.Concatenate, ops.Pad, ops.ShardPart, ops.Copy},
		Primitives: []string{"broadcast_in_dim", "transpose", "slice", "rev", "concatenate", "pad"},
		Doc:        "elements copied from one layout to another",
		Functions:  moveFunctions(),
		Build:      arrangeProgram,
	}
}

// rearrangement is a primitive whose result consists of boxes of elements of its arguments.
type rearrangement interface {
	Boxes(a *exec.Args, move func(a *exec.Args, arg int, shape []int, toAt int, to []int, fromAt int, from []int))
}

func arrangeProgram(in *Instr) (*Program, error) {
	switch in.Op { // only these instructions, not those that something else was lowered to
	case ops.ShardPart:
		return in.shardPart()
	case ops.Copy:
		return in.boxes([]box{line1(in.Results[0].Type.Len())}, []int{0})
	}
	p, ok := in.Prim.(rearrangement)
	if !ok {
		return nil, refuse("%s made by %T", in.Name(), in.Prim)
	}
	a := in.host()
	for _, x := range in.Args {
		a.In = append(a.In, array.Array{Type: x.Type})
	}
	a.Out = []array.Array{{Type: in.Results[0].Type}}
	var bs []box
	var args []int
	p.Boxes(a, func(_ *exec.Args, arg int, shape []int, toAt int, to []int, fromAt int, from []int) {
		bs, args = append(bs, box{shape: shape, to: slices.Clone(to), from: slices.Clone(from), toBegin: toAt, fromBegin: fromAt}), append(args, arg)
	})
	return in.boxes(bs, args)
}

// shardPart copies the rank's shard along dimensions that the result's placement splits further
// than the argument's placement does.
func (in *Instr) shardPart() (*Program, error) {
	x, out := in.Args[0], in.Results[0]
	b := box{shape: out.Type.Shape, to: rowMajor(out.Type.Shape), from: rowMajor(x.Type.Shape)}
	for d := range b.shape {
		b.fromBegin += (in.Start(out, d) - in.Start(x, d)) * b.from[d]
	}
	return in.boxes([]box{b}, []int{0})
}
