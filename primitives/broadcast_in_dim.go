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

// broadcastInDimOp repeats its argument along new dimensions and along
// dimensions of size 1. Dimension i of the argument is dimension Dims[i] of the
// result.
type broadcastInDimOp struct {
	Shape []int
	Dims  []int
}

var _ flexible = broadcastInDimOp{}

// BroadcastInDim returns x repeated to shape. Dimension i of x becomes dimension
// dims[i] of the result; it has the result's size or size 1.
func BroadcastInDim(x *graph.Value, shape []int, dims ...int) *graph.Value {
	return graph.Apply1(broadcastInDimOp{slices.Clone(shape), slices.Clone(dims)}, x)
}

// BroadcastTo returns x repeated to shape as in NumPy: the dimensions of x become
// the last ones of shape, and each has the size there or size 1.
func BroadcastTo(x *graph.Value, shape ...int) *graph.Value {
	graph.Helper()
	if slices.Equal(x.Type.Shape, shape) {
		return x
	}
	if x.Rank() > len(shape) {
		graph.Fail("broadcast of %s to %v: the result has fewer dimensions, want at least %d", x.Type, shape, x.Rank())
	}
	dims := make([]int, x.Rank())
	for i := range dims {
		dims[i] = len(shape) - x.Rank() + i
	}
	return BroadcastInDim(x, shape, dims...)
}

func (broadcastInDimOp) Name() string { return "broadcast_in_dim" }

func (b broadcastInDimOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	x := in[0]
	if len(b.Dims) != x.Rank() {
		return nil, fmt.Errorf("dims %v for %d dimensions, want one entry for each", b.Dims, x.Rank())
	}
	out := graph.Type{DType: x.DType, Shape: b.Shape}
	if !out.Fits() {
		return nil, fmt.Errorf("shape %v, want sizes of at least 0 whose bytes fit in 63 bits", b.Shape)
	}
	if err := axesOf(out, b.Dims); err != nil {
		return nil, fmt.Errorf("dims: %w", err)
	}
	for i, d := range b.Dims {
		if x.Shape[i] != b.Shape[d] && x.Shape[i] != 1 {
			return nil, fmt.Errorf("dimension %d of size %d cannot become dimension %d of %v; want size %d or 1", i, x.Shape[i], d, b.Shape, b.Shape[d])
		}
	}
	return []graph.Type{out}, nil
}

// VJP sums the cotangent over the dimensions that were repeated.
func (b broadcastInDimOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	var axes []int
	for d := range b.Shape {
		i := slices.Index(b.Dims, d)
		if i < 0 || e.In[0].Dim(i) == 1 && b.Shape[d] != 1 {
			axes = append(axes, d)
		}
	}
	g := ct[0]
	if len(axes) > 0 {
		g = graph.Apply1(reduceSumOp{Axes: axes, Unordered: true}, g)
	}
	if !g.Type.Equal(e.In[0].Type) {
		g = Reshape(g, e.In[0].Type.Shape...)
	}
	return []*graph.Value{g}, nil
}

func (b broadcastInDimOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(b.factors(c))
}

func (b broadcastInDimOp) factors(c *sharding.Context) sharding.Factors {
	in := make([]int, len(b.Dims))
	for i, d := range b.Dims {
		in[i] = d
		if c.Type(0).Shape[i] != b.Shape[d] {
			in[i] = sharding.Whole
		}
	}
	out := make([]int, len(b.Shape))
	for d := range out {
		out[d] = d
	}
	return sharding.Factors{In: [][]int{in}, Out: [][]int{out}, RowWise: true}
}

// ShardAs places the argument's dimensions like those of the result that they
// become; repeated dimensions may have any placement.
func (b broadcastInDimOp) ShardAs(c *sharding.Context, out sharding.Spec) (sharding.Decision, error) {
	f := b.factors(c)
	in := sharding.Spec{Dims: make([][]string, len(b.Dims))}
	for i, n := range f.In[0] {
		if n == sharding.Whole {
			continue
		}
		in.Dims[i] = out.At(n)
		if n == 0 && i == 0 {
			in.Ragged = out.Ragged
		}
	}
	return sharding.Decision{In: []sharding.Spec{in}, Out: []sharding.Spec{out}}, nil
}

func (b broadcastInDimOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	if inner := b.inner(e, out[0], in[0]); inner > 0 {
		return e.Emit(lowering.KernelSpec{Op: ops.BroadcastInDim, Out: []lowering.Buf{out[0]}, In: []lowering.Buf{in[0]}, Repeat: inner, Kernel: moveBoxes(b)})
	}
	return e.Emit(lowering.KernelSpec{Op: ops.BroadcastInDim, Out: out, In: in, Kernel: moveBoxes(b)})
}

func (b broadcastInDimOp) Boxes(a *exec.Args, move boxMove) {
	x, shape := a.In[0].Type.Shape, a.Out[0].Type.Shape
	from, n := exec.Make[int](a, len(shape)), 1
	for i := len(b.Dims) - 1; i >= 0; i-- {
		if x[i] == shape[b.Dims[i]] {
			from[b.Dims[i]] = n
		}
		n *= x[i]
	}
	move(a, 0, shape, 0, work.RowMajor(a, shape), 0, from)
}

// inner returns how often each element is repeated before the next one, 0 if the
// dimensions of the argument do not lie side by side in the result, or if the number
// differs between ranks.
func (b broadcastInDimOp) inner(e *lowering.Emitter, out, in lowering.Buf) int {
	from := make([]int, out.Type.Rank()) // 1 for a repeated dimension, 2 for one of the argument, 0 for one of size 1
	for d, n := range out.Type.Shape {
		if n != 1 || d == 0 && out.Spec.Ragged != nil {
			from[d] = 1
		}
	}
	last := -1
	for i, d := range b.Dims {
		if from[d] == 0 || in.Type.Shape[i] == 1 && !(d == 0 && in.Spec.Ragged != nil) {
			continue
		}
		if d < last {
			return 0
		}
		from[d], last = 2, d
	}
	inner := 1
	for d := last + 1; d < len(from) && last >= 0; d++ {
		if !e.Even(out, d) {
			return 0
		}
		inner *= out.Type.Shape[d]
	}
	for d, seen := last, false; d >= 0; d-- {
		seen = seen || from[d] == 1
		if seen && from[d] == 2 {
			return 0
		}
	}
	return inner
}

func (broadcastInDimOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "t[shape]", Formula: "y[.., i_d, ..] = x[i_dims] (index 0 where x has size 1)",
		Params: "shape: sizes of the result; dims: the result's dimension for each of x's"}
}
