package primitives

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// concatenateOp joins its one or more arguments along a dimension.
type concatenateOp struct {
	Dimension int
}

var _ rearranging = concatenateOp{}

// Concatenate returns the arguments one behind the other along the dimension.
// Their shapes may differ only in that dimension.
func Concatenate(dimension int, xs ...*graph.Value) *graph.Value {
	graph.Helper()
	if len(xs) == 0 {
		graph.Fail("concatenate of nothing, want at least one value")
	}
	return graph.Apply1(concatenateOp{dimension}, xs...)
}

func (concatenateOp) Name() string { return "concatenate" }

func (j concatenateOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if len(in) == 0 {
		return nil, fmt.Errorf("no arguments, want at least one")
	}
	if err := axisOf(in[0], j.Dimension); err != nil {
		return nil, err
	}
	out := graph.Type{DType: in[0].DType, Shape: slices.Clone(in[0].Shape)}
	for i, t := range in[1:] {
		if t.DType != out.DType {
			return nil, fmt.Errorf("element types %s and %s differ; convert one with convert_element_type", out.DType, t.DType)
		}
		if t.Rank() != out.Rank() {
			return nil, fmt.Errorf("argument %d has %d dimensions and argument 0 has %d; want the same number", i+1, t.Rank(), out.Rank())
		}
		for d, n := range t.Shape {
			switch {
			case d != j.Dimension && n != out.Shape[d]:
				return nil, fmt.Errorf("dimension %d of argument %d has size %d, want %d as argument 0; sizes differ along dimension %d only", d, i+1, n, out.Shape[d], j.Dimension)
			case d == j.Dimension && n > math.MaxInt-out.Shape[d]:
				return nil, fmt.Errorf("the sizes along dimension %d have no sum", d)
			case d == j.Dimension:
				out.Shape[d] += n
			}
		}
	}
	return []graph.Type{out}, nil
}

// VJP gives every argument its slice.
func (j concatenateOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	out := make([]*graph.Value, len(e.In))
	at := 0
	for i, v := range e.In {
		n := v.Dim(j.Dimension)
		out[i] = SliceInDim(ct[0], j.Dimension, at, at+n)
		at += n
	}
	return out, nil
}

func (j concatenateOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(j.Factors(c, false))
}

// Factors lets the dimensions be split that the arguments share.
func (j concatenateOp) Factors(c *sharding.Context, _ bool) sharding.Factors {
	dims := rowDims(c.Type(0).Rank(), j.Dimension)
	f := sharding.Factors{Out: [][]int{dims}, RowWise: true, Linear: sharding.LinearTogether}
	for range c.In {
		f.In = append(f.In, dims)
	}
	return f
}

func (j concatenateOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	if len(in) == 1 {
		e.Alias(out[0], in[0])
		return nil
	}
	return e.Emit(lowering.KernelSpec{Op: ops.Concatenate, Out: out, In: in, Kernel: moveBoxes(j)})
}

func (j concatenateOp) Boxes(a *exec.Args, move boxMove) {
	to, at := work.RowMajor(a, a.Out[0].Type.Shape), 0
	for i, x := range a.In {
		shape := x.Type.Shape
		move(a, i, shape, at, to, 0, work.RowMajor(a, shape))
		at += shape[j.Dimension] * to[j.Dimension]
	}
}

func (concatenateOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..], y t[..], ...", Results: "t[..]", Formula: "[x y ...] along the dimension",
		Params: "dimension: the one along which the arguments follow each other"}
}
