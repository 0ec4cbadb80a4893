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

// dynamicSliceOp takes a box of a known size out of its first argument. The other
// arguments say where the box begins.
type dynamicSliceOp struct {
	SliceSizes []int
}

var _ primitive = dynamicSliceOp{}

// DynamicSlice returns the box of the given sizes that begins at the start
// indices, scalars i32[], one per dimension. A start index at which the box would
// not fit is replaced by the nearest one at which it does; a negative one becomes 0.
func DynamicSlice(x *graph.Value, start []*graph.Value, sizes ...int) *graph.Value {
	return graph.Apply1(dynamicSliceOp{slices.Clone(sizes)}, append([]*graph.Value{x}, start...)...)
}

func (dynamicSliceOp) Name() string { return "dynamic_slice" }

func (s dynamicSliceOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if len(in) == 0 {
		return nil, fmt.Errorf("no arguments, want a value and one start index per dimension")
	}
	x := in[0]
	if err := startIndices(x, in[1:]); err != nil {
		return nil, err
	}
	if len(s.SliceSizes) != x.Rank() {
		return nil, fmt.Errorf("%d slice_sizes for %d dimensions, want one for each", len(s.SliceSizes), x.Rank())
	}
	for d, n := range s.SliceSizes {
		if n < 0 || n > x.Shape[d] {
			return nil, fmt.Errorf("slice size %d in dimension %d, want 0 to %d", n, d, x.Shape[d])
		}
	}
	return []graph.Type{{DType: x.DType, Shape: s.SliceSizes}}, nil
}

// startIndices checks the start indices for a box of x.
func startIndices(x graph.Type, start []graph.Type) error {
	if len(start) != x.Rank() {
		return fmt.Errorf("%d start indices for %d dimensions, want one for each", len(start), x.Rank())
	}
	for d, t := range start {
		if !t.Equal(graph.T(graph.I32)) {
			return fmt.Errorf("start index %d is %s, want the scalar i32[]", d, t)
		}
	}
	return nil
}

// VJP writes the cotangent into zeros, where the box was.
func (s dynamicSliceOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	out := make([]*graph.Value, len(e.In))
	out[0] = DynamicUpdateSlice(zeros(e.In[0]), ct[0], e.In[1:]...)
	return out, nil
}

// Shard lets a dimension be split if the box has all of its indices.
func (s dynamicSliceOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	shape := c.Type(0).Shape
	dims := splitWhere(len(shape), func(d int) bool { return s.SliceSizes[d] == shape[d] })
	f := sharding.Factors{In: [][]int{dims}, Out: [][]int{dims}, RowWise: true, Linear: sharding.LinearFirst}
	for range c.In[1:] {
		f.In = append(f.In, nil)
	}
	return c.Place(f)
}

func (s dynamicSliceOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.DynamicSlice, Out: out, In: in, Kernel: func(a *exec.Args) error {
		x, shape := a.In[0], a.Out[0].Type.Shape
		work.Move(a, shape, a.Out[0], work.Layout{Strides: work.RowMajor(a, shape)}, x, boxAt(a, x.Type.Shape, shape, a.In[1:]))
		return nil
	}})
}

// boxAt returns the layout, in an array of the shape, of a box of the given sizes
// that begins at the start indices, moved to where the box fits.
func boxAt(a *exec.Args, shape, sizes []int, start []array.Array) work.Layout {
	l := work.Layout{Strides: work.RowMajor(a, shape)}
	for d, i := range start {
		l.At += max(0, min(int(data[int32](i)[0]), shape[d]-sizes[d])) * l.Strides[d]
	}
	return l
}

func (dynamicSliceOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..], start_0 i32[], start_1 i32[], ...", Results: "t[slice_sizes]", Formula: "y[i_0, ..] = x[s_0 + i_0, ..], s_d = clamp(0, start_d, size_d - slice_size_d)",
		Params: "slice_sizes: one per dimension",
		Notes:  "A start from which the box would not fit is moved to the nearest one from which it does. So a negative start is 0; jax.lax.dynamic_slice counts it from the end, unless allow_negative_indices is False."}
}
