package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// dynamicUpdateSliceOp replaces a box of its first argument by its second argument. The
// other arguments say where the box begins.
type dynamicUpdateSliceOp struct{}

var _ primitive = dynamicUpdateSliceOp{}

// DynamicUpdateSlice returns x with the box that begins at the start indices,
// scalars i32[], one per dimension, replaced by update. A start index at which
// update would not fit is replaced by the nearest one at which it does.
func DynamicUpdateSlice(x, update *graph.Value, start ...*graph.Value) *graph.Value {
	return graph.Apply1(dynamicUpdateSliceOp{}, append([]*graph.Value{x, update}, start...)...)
}

func (dynamicUpdateSliceOp) Name() string { return "dynamic_update_slice" }

func (dynamicUpdateSliceOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if len(in) < 2 {
		return nil, fmt.Errorf("%d arguments, want a value, its update and one start index per dimension", len(in))
	}
	x, update := in[0], in[1]
	if update.DType != x.DType || update.Rank() != x.Rank() {
		return nil, fmt.Errorf("update %s of %s, want the same element type and number of dimensions", update, x)
	}
	for d, n := range update.Shape {
		if n > x.Shape[d] {
			return nil, fmt.Errorf("update %s is larger than %s in dimension %d, want at most %d", update, x, d, x.Shape[d])
		}
	}
	return in[:1], startIndices(x, in[2:])
}

func (dynamicUpdateSliceOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	out := make([]*graph.Value, len(e.In))
	update, start := e.In[1], e.In[2:]
	if !isFill(e.In[0]) {
		out[0] = DynamicUpdateSlice(ct[0], zeros(update), start...)
	}
	out[1] = DynamicSlice(ct[0], start, update.Type.Shape...)
	return out, nil
}

// Shard lets a dimension be split if the update has all of its indices. If the update
// is zeros, x may be a pending sum, and so is the result; if x is zeros, the same holds
// for the update.
func (dynamicUpdateSliceOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	x, update := c.Type(0), c.Type(1)
	dims := splitWhere(x.Rank(), func(d int) bool { return update.Shape[d] == x.Shape[d] })
	f := sharding.Factors{In: [][]int{dims, dims}, Out: [][]int{dims}, RowWise: true}
	for range c.In[2:] {
		f.In = append(f.In, nil)
	}
	switch {
	case isZero(c.Eqn.In[1]):
		f.Linear = sharding.LinearFirst
	case isZero(c.Eqn.In[0]) && len(c.In[1].Pending) > 0:
		f.Linear = sharding.LinearEach // only one argument is pending
	}
	return c.Place(f)
}

func (dynamicUpdateSliceOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.DynamicUpdateSlice, Out: out, In: in, InPlace: true, Kernel: func(a *exec.Args) error {
		x, update, y := a.In[0], a.In[1], a.Out[0]
		if update.Type.Equal(y.Type) { // y may share update's memory
			copy(y.Bytes(), update.Bytes())
			return nil
		}
		copy(y.Bytes(), x.Bytes())
		work.Move(a, update.Type.Shape, y, boxAt(a, y.Type.Shape, update.Type.Shape, a.In[2:]), update, work.Layout{Strides: work.RowMajor(a, update.Type.Shape)})
		return nil
	}})
}

func (dynamicUpdateSliceOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..], update t[..], start_0 i32[], start_1 i32[], ...", Results: "t[..]", Formula: "y = x, but y[s_0 + i_0, ..] = update[i_0, ..], s_d = clamp(0, start_d, size_d - update_size_d)",
		Notes: "A start from which the update would not fit is moved to the nearest one from which it does. So a negative start is 0, as in dynamic_slice."}
}
