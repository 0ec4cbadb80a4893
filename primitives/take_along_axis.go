package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// takeAlongAxisOp picks elements along Axis by index. Every line has its own list of
// indices. An index outside the axis makes the run fail.
type takeAlongAxisOp struct {
	Axis int
}

var _ primitive = takeAlongAxisOp{}

// TakeAlongAxis returns x[.., indices[.., j, ..], ..]. indices are i32 and count along
// the axis; in all other dimensions they have x's sizes.
func TakeAlongAxis(x, indices *graph.Value, axis int) *graph.Value {
	return graph.Apply1(takeAlongAxisOp{axis}, x, indices)
}

func (takeAlongAxisOp) Name() string { return "take_along_axis" }

func (t takeAlongAxisOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	x, index := in[0], in[1]
	if err := axisOf(x, t.Axis); err != nil {
		return nil, err
	}
	if index.DType != graph.I32 {
		return nil, fmt.Errorf("indices %s, want element type i32; convert with convert_element_type", index)
	}
	if index.Rank() != x.Rank() {
		return nil, fmt.Errorf("indices %s for %s, want as many dimensions", index, x)
	}
	for d, n := range x.Shape {
		if d != t.Axis && index.Shape[d] != n {
			return nil, fmt.Errorf("indices %s for %s, want the same sizes except along axis %d", index, x, t.Axis)
		}
	}
	return []graph.Type{index.With(x.DType)}, nil
}

func (t takeAlongAxisOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{graph.Apply1(addAlongAxisOp{t.Axis, e.In[0].Dim(t.Axis)}, ct[0], e.In[1]), nil}, nil
}

// Shard lets the axis of the indices be split, but not that of x.
func (t takeAlongAxisOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	index := sharding.Elementwise(c.Type(1), 1, 0, 0).In[0]
	x := slices.Clone(index)
	x[t.Axis] = sharding.Whole
	return c.Place(sharding.Factors{In: [][]int{x, index}, Out: [][]int{index}, RowWise: true, Linear: sharding.LinearFirst})
}

func (t takeAlongAxisOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.TakeAlongAxis, Out: out, In: in, Kernel: func(a *exec.Args) error {
		if err := inAxis(a.In[1], t.Axis, a.In[0].Type.Shape[t.Axis]); err != nil {
			return err
		}
		takeAlong(a, a.Out[0], a.In[0], data[int32](a.In[1]), t.Axis)
		return nil
	}})
}

// inAxis returns an error for the first index outside an axis of n elements, or nil.
func inAxis(index array.Array, axis, n int) error {
	for i, k := range data[int32](index) {
		if k < 0 || int(k) >= n {
			return axisError(index.Type, axis, i, k, n)
		}
	}
	return nil
}

// axisError returns the error for an index outside the axis, which has n elements. The
// index is element `at` of indices of type t.
func axisError(t graph.Type, axis, at int, index int32, n int) error {
	return fmt.Errorf("element %d of the indices %s is %d, want 0 to %d for axis %d", at, t, index, n-1, axis)
}

// takeAlong fills dst with the elements of src that index names. Every index is in range.
func takeAlong(a *exec.Args, dst, src array.Array, index []int32, axis int) {
	outer, n, inner := src.Type.Around(axis)
	m := dst.Type.Shape[axis]
	switch dst.Type.DType.Size() {
	case 1:
		takeLines(a, work.Bits[uint8](dst), work.Bits[uint8](src), index, outer, n, m, inner)
	case 2:
		takeLines(a, work.Bits[uint16](dst), work.Bits[uint16](src), index, outer, n, m, inner)
	case 4:
		takeLines(a, work.Bits[uint32](dst), work.Bits[uint32](src), index, outer, n, m, inner)
	default:
		takeLines(a, work.Bits[uint64](dst), work.Bits[uint64](src), index, outer, n, m, inner)
	}
}

func takeLines[T any](a *exec.Args, dst, src []T, index []int32, outer, n, m, inner int) {
	exec.Share(a, outer, 1+dear/(1+m*inner), linesTaken[T]{dst, src, index, n, m, inner})
}

type linesTaken[T any] struct {
	dst, src    []T
	index       []int32
	n, m, inner int
}

func (w *linesTaken[T]) Piece(lo, hi int) {
	for o := lo; o < hi; o++ {
		for i := range w.m {
			for j := range w.inner {
				at := (o*w.m+i)*w.inner + j
				w.dst[at] = w.src[(o*w.n+int(w.index[at]))*w.inner+j]
			}
		}
	}
}

func (takeAlongAxisOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..,n,..], indices i32[..,m,..]", Results: "t[..,m,..]", Formula: "y[.., i, ..] = x[.., indices[.., i, ..], ..]",
		Params: "axis: where the indices point", Notes: "An index outside 0..n-1 is an error of the run."}
}
