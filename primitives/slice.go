package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// sliceOp takes a box out of its argument: in each dimension every Strides-th index
// from StartIndices up to, but not including, LimitIndices. An empty Strides means 1
// everywhere.
type sliceOp struct {
	StartIndices []int
	LimitIndices []int
	Strides      []int
}

var _ rearranging = sliceOp{}

// Slice returns the box x[start_0:limit_0:stride_0, ...]; without strides every
// index is taken. There is one start, limit and stride per dimension.
func Slice(x *graph.Value, start, limit []int, strides ...int) *graph.Value {
	return graph.Apply1(sliceOp{slices.Clone(start), slices.Clone(limit), slices.Clone(strides)}, x)
}

// SliceInDim returns indices lo to hi-1 of one dimension of x and all of the
// others.
func SliceInDim(x *graph.Value, axis, lo, hi int) *graph.Value {
	graph.Helper()
	if axis < 0 || axis >= x.Rank() {
		graph.Fail("slice of %s: axis %d, want 0 to %d", x.Type, axis, x.Rank()-1)
	}
	start, limit := make([]int, x.Rank()), slices.Clone(x.Type.Shape)
	start[axis], limit[axis] = lo, hi
	return Slice(x, start, limit)
}

func (sliceOp) Name() string { return "slice" }

func (s sliceOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	x := in[0]
	if len(s.StartIndices) != x.Rank() || len(s.LimitIndices) != x.Rank() || len(s.Strides) != x.Rank() && len(s.Strides) != 0 {
		return nil, fmt.Errorf("%d start_indices, %d limit_indices and %d strides for %d dimensions, want one of each per dimension, or no strides",
			len(s.StartIndices), len(s.LimitIndices), len(s.Strides), x.Rank())
	}
	out := graph.Type{DType: x.DType, Shape: make([]int, x.Rank())}
	for d, n := range x.Shape {
		lo, hi, step := s.StartIndices[d], s.LimitIndices[d], s.stride(d)
		if lo < 0 || hi < lo || hi > n {
			return nil, fmt.Errorf("dimension %d from %d to %d, want 0 <= start <= limit <= %d", d, lo, hi, n)
		}
		if step < 1 {
			return nil, fmt.Errorf("dimension %d with stride %d, want at least 1; reverse with rev", d, step)
		}
		if hi > lo {
			out.Shape[d] = (hi-lo-1)/step + 1
		}
	}
	return []graph.Type{out}, nil
}

func (s sliceOp) stride(d int) int {
	if len(s.Strides) == 0 {
		return 1
	}
	return s.Strides[d]
}

// VJP puts the cotangent back into zeros.
func (s sliceOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	rank := e.In[0].Rank()
	low, high, interior := make([]int, rank), make([]int, rank), make([]int, rank)
	for d := range rank {
		low[d], interior[d] = s.StartIndices[d], s.stride(d)-1
		end := low[d] // one more than the last index taken
		if n := e.Out[0].Dim(d); n > 0 {
			end += (n-1)*s.stride(d) + 1
		}
		high[d] = e.In[0].Dim(d) - end
	}
	return []*graph.Value{Pad(ct[0], zeroOf(ct[0]), low, high, interior...)}, nil
}

func (s sliceOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(s.Factors(c, false))
}

// Factors lets a dimension be split if the box has all of its indices.
func (s sliceOp) Factors(c *sharding.Context, _ bool) sharding.Factors {
	shape := c.Type(0).Shape
	dims := splitWhere(len(shape), func(d int) bool {
		return s.StartIndices[d] == 0 && s.LimitIndices[d] == shape[d] && s.stride(d) == 1
	})
	return sharding.Factors{In: [][]int{dims}, Out: [][]int{dims}, RowWise: true, Linear: sharding.LinearTogether}
}

// Lower copies nothing where the box is all of the argument.
func (s sliceOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	if slices.Equal(out[0].Type.Shape, in[0].Type.Shape) {
		e.Alias(out[0], in[0])
		return nil
	}
	return e.Emit(lowering.KernelSpec{Op: ops.Slice, Out: out, In: in, Kernel: moveBoxes(s)})
}

func (s sliceOp) Boxes(a *exec.Args, move boxMove) {
	shape, from, at := a.Out[0].Type.Shape, work.RowMajor(a, a.In[0].Type.Shape), 0
	for d := range from {
		at += s.StartIndices[d] * from[d]
		from[d] *= s.stride(d)
	}
	move(a, 0, shape, 0, work.RowMajor(a, shape), at, from)
}

func (sliceOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "t[..]", Formula: "y[i_0, ..] = x[start_0 + i_0·stride_0, ..]",
		Params: "start_indices, limit_indices: one per dimension, 0 <= start <= limit <= size; strides: 1 or more each, none for all 1"}
}
