package kernels

import (
	"slices"

	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/primitives"
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

func arrangeProgram(in *Instr) (*Program, error) {
	out := in.Results[0].Type
	whole := rowMajor(out.Shape)
	first := in.Args[0].Type.Shape
	b := box{shape: out.Shape, to: whole}
	switch in.Op { // only these instructions, not those that something else was lowered to
	case ops.ShardPart:
		return in.shardPart()
	case ops.Copy:
		n := out.Len()
		return in.boxes([]box{{shape: []int{n}, to: []int{1}, from: []int{1}}}, []int{0})
	}
	switch p := in.Prim.(type) {
	case primitives.BroadcastInDimOp:
		b.from = make([]int, len(out.Shape))
		n := 1
		for i := len(p.Dims) - 1; i >= 0; i-- {
			if first[i] == out.Shape[p.Dims[i]] {
				b.from[p.Dims[i]] = n
			}
			n *= first[i]
		}
	case primitives.TransposeOp:
		from := rowMajor(first)
		for _, d := range p.Permutation {
			b.from = append(b.from, from[d])
		}
	case primitives.SliceOp:
		b.from = rowMajor(first)
		for d := range b.from {
			b.fromBegin += p.StartIndices[d] * b.from[d]
			if len(p.Strides) > 0 {
				b.from[d] *= p.Strides[d]
			}
		}
	case primitives.ReverseOp:
		b.from = rowMajor(first)
		for _, d := range p.Dimensions {
			b.fromBegin += (first[d] - 1) * b.from[d]
			b.from[d] = -b.from[d]
		}
	case primitives.ConcatenateOp:
		var bs []box
		var args []int
		at := 0
		for i, a := range in.Args {
			bs = append(bs, box{shape: a.Type.Shape, to: whole, from: rowMajor(a.Type.Shape), toBegin: at})
			args = append(args, i)
			at += a.Type.Shape[p.Dimension] * whole[p.Dimension]
		}
		return in.boxes(bs, args)
	case primitives.PadOp:
		return in.boxes([]box{{shape: out.Shape, to: whole, from: make([]int, len(out.Shape))}, surrounded(p, first, out.Shape)}, []int{1, 0})
	default:
		return nil, refuse("%s made by %T", in.Name(), in.Prim)
	}
	return in.boxes([]box{b}, []int{0})
}

// surrounded returns the box of the elements of x appearing in the result of a pad.
func surrounded(p primitives.PadOp, x, y []int) box {
	whole := rowMajor(y)
	b := box{shape: slices.Clone(x), to: slices.Clone(whole), from: rowMajor(x)}
	for d := range b.shape {
		// Index i of x goes to low + i·step; keep the indices with 0 <= that < size.
		step, low, size := 1, p.Low[d], y[d]
		if len(p.Interior) > 0 {
			step += p.Interior[d]
		}
		first, behind := 0, 0
		if low < 0 {
			first = (-low + step - 1) / step
		}
		if size > low {
			behind = min(x[d], (size-low-1)/step+1)
		}
		b.shape[d] = max(behind-first, 0)
		b.toBegin += (low + first*step) * whole[d]
		b.to[d] = step * whole[d]
		b.fromBegin += first * b.from[d]
	}
	return b
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
