package primitives

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// oneHotOp gives every index a row of zeros with a one at that index.
type oneHotOp struct {
	NumClasses int
	DType      graph.DType
}

var _ primitive = oneHotOp{}

// OneHot returns, for indices i32[I..], rows of the element type [I..,classes]
// with 1 at the index and 0 elsewhere. The row of an index below 0 or not below
// classes is zero.
func OneHot(indices *graph.Value, classes int, d graph.DType) *graph.Value {
	return graph.Apply1(oneHotOp{classes, d}, indices)
}

func (oneHotOp) Name() string { return "one_hot" }

func (h oneHotOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	switch {
	case in[0].DType != graph.I32:
		return nil, fmt.Errorf("indices are %s, want i32; convert with convert_element_type", in[0].DType)
	case h.DType == graph.NoDType:
		return nil, errors.New("dtype is missing; write dtype=f32")
	case h.NumClasses < 0:
		return nil, fmt.Errorf("num_classes %d, want at least 0", h.NumClasses)
	}
	return []graph.Type{{DType: h.DType, Shape: append(slices.Clone(in[0].Shape), h.NumClasses)}}, nil
}

func (oneHotOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{nil}, nil
}

func (h oneHotOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	f := sharding.Elementwise(c.Type(0), 1, 0, sharding.NotLinear)
	f.Out = [][]int{append(slices.Clone(f.In[0]), sharding.Whole)}
	return c.Place(f)
}

func (h oneHotOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.OneHot, Out: out, In: in, Kernel: func(a *exec.Args) error {
		y := a.Out[0]
		one := array.New(graph.T(h.DType))
		one.Fill(1)
		bit, mem := one.Bytes(), y.Bytes()
		clear(mem)
		for k, i := range data[int32](a.In[0]) {
			if i >= 0 && int(i) < h.NumClasses {
				copy(mem[(k*h.NumClasses+int(i))*len(bit):], bit)
			}
		}
		return nil
	}})
}

func (oneHotOp) Doc() graph.Doc {
	return graph.Doc{Args: "indices i32[I..]", Results: "dtype[I..,num_classes]", Formula: "y[i.., c] = 1 if indices[i..] = c else 0",
		Params: "num_classes: size of the last dimension; dtype: element type",
		Notes:  "An index out of range has a row of zeros."}
}
