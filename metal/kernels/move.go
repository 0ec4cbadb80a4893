package kernels

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/graph"
)

// box is a box of elements in two layouts. In each, the element at index i lies at off + Σ
// i_d·stride_d. Strides may be 0 or, in the source, negative.
type box struct {
	shape              []int
	to, from           []int
	toBegin, fromBegin int
}

// moveRank is the largest number of dimensions of a box, after joining dimensions that are
// contiguous in both layouts.
const moveRank = 8

// joined returns the same box with as few dimensions as possible.
func (b box) joined() box {
	j := box{toBegin: b.toBegin, fromBegin: b.fromBegin}
	for d, n := range b.shape {
		last := len(j.shape) - 1
		switch {
		case n == 1:
		case last >= 0 && j.to[last] == b.to[d]*n && j.from[last] == b.from[d]*n:
			j.shape[last] *= n
			j.to[last], j.from[last] = b.to[d], b.from[d]
		default:
			j.shape, j.to, j.from = append(j.shape, n), append(j.to, b.to[d]), append(j.from, b.from[d])
		}
	}
	return j
}

// moveKind is an operation of a move in addition to copying.
type moveKind string

const (
	movePlain  moveKind = ""
	moveRagged moveKind = "ragged_"
	moveFrom   moveKind = "from_" // also starts at indices in scratch memory
	moveTo     moveKind = "to_"
)

// move returns the launch copying a box of elements of type d from source to destination.
func (in *Instr) move(b box, d graph.DType, destination, source, extra Arg, kind moveKind) (Launch, error) {
	if d.IsBlock() {
		return Launch{}, refuse("moves blocks of %s", d)
	}
	b = b.joined()
	n := 1
	for _, s := range b.shape {
		n *= s
	}
	if len(b.shape) > moveRank {
		return Launch{}, refuse("moves a box of %d dimensions, want at most %d", len(b.shape), moveRank)
	}
	width := 1
	if kind == moveRagged {
		width = max(1, rowLen(in.Results[0].Type))
	}
	p := []any{n, len(b.shape), b.toBegin, b.fromBegin, width, in.Experts(), in.Align}
	for i := range b.shape {
		p = append(p, b.shape[i], b.to[i], b.from[i])
	}
	l := Launch{Source: Source{File: "move.metal"}, Function: fmt.Sprintf("move_%s%d", kind, d.Size())}
	l.Args = []Arg{source, destination, extra, Params(p...)}
	l.Groups, l.Threads = line(n)
	return l, nil
}

// boxes returns the program copying the boxes to the result. Each box comes from the argument at
// the same position in args.
func (in *Instr) boxes(bs []box, args []int) (*Program, error) {
	p := &Program{}
	out := in.Results[0].Type
	for i, b := range bs {
		kind, extra := movePlain, In(args[i])
		if in.Ragged() {
			if !in.Results[0].Ragged {
				return nil, refuse("makes whole rows of ragged ones")
			}
			kind, extra = moveRagged, Zones()
		}
		if slices.Contains(b.shape, 0) {
			continue
		}
		l, err := in.move(b, out.DType, Out(0), In(args[i]), extra, kind)
		if err != nil {
			return nil, err
		}
		p.Launches = append(p.Launches, l)
	}
	return p, nil
}

// moveFunctions returns the functions of move.metal.
func moveFunctions() []Function {
	var fs []Function
	for _, kind := range []moveKind{movePlain, moveRagged, moveFrom, moveTo} {
		for _, size := range []int{1, 2, 4, 8} {
			fs = append(fs, Function{Name: fmt.Sprintf("move_%s%d", kind, size), Threads: lineThreads})
		}
	}
	return append(fs, Function{Name: "box_start", Threads: lineThreads})
}
