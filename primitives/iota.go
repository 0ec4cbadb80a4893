package primitives

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// iotaOp holds the indices along one dimension.
type iotaOp struct {
	DType     graph.DType
	Shape     []int
	Dimension int
}

var _ flexible = iotaOp{}

// Iota returns a value of the shape that holds 0, 1, 2, ... along the
// dimension and is equal along the others.
func Iota(t *graph.Tracer, d graph.DType, dimension int, shape ...int) *graph.Value {
	return t.Apply(iotaOp{d, slices.Clone(shape), dimension})[0]
}

func (iotaOp) Name() string { return "iota" }

func (n iotaOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 0); err != nil {
		return nil, err
	}
	out := graph.Type{DType: n.DType, Shape: n.Shape}
	switch {
	case n.DType == graph.NoDType:
		return nil, errors.New("dtype is missing; write dtype=i32")
	case !n.DType.IsInt() && !n.DType.IsFloat():
		return nil, fmt.Errorf("element type %s cannot count, want an integer or a float type", n.DType)
	case !out.Fits():
		return nil, fmt.Errorf("shape %v, want sizes of at least 0 whose bytes fit in 63 bits", n.Shape)
	}
	return []graph.Type{out}, axisOf(out, n.Dimension)
}

func (iotaOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) { return nil, nil }

func (iotaOp) Shard(*sharding.Context) (sharding.Decision, error) {
	return sharding.Decision{Out: []sharding.Spec{{}}}, nil
}

// ShardAs allows every placement except one: the indices of ragged rows are known
// only when the program runs.
func (n iotaOp) ShardAs(c *sharding.Context, out sharding.Spec) (sharding.Decision, error) {
	if out.Ragged != nil && n.Dimension == 0 {
		return sharding.Decision{}, fmt.Errorf("%s counts rows in expert order, whose number is known only to the run; count before ep_dispatch", n.Name())
	}
	return sharding.Decision{Out: []sharding.Spec{out}}, nil
}

func (n iotaOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	axes, all := out[0].Spec.At(n.Dimension), n.Shape[n.Dimension]
	return e.Emit(lowering.KernelSpec{Op: ops.Iota, Out: out, In: in, Kernel: func(a *exec.Args) error {
		y := a.Out[0]
		first, size := a.Part(axes, all)
		var index array.Array
		if n.DType == graph.I32 { // positions, in every step of a model: without allocations
			shape := exec.Make[int](a, 1)
			shape[0] = size
			index = room(a, graph.Type{DType: graph.I32, Shape: shape})
			for i := range data[int32](index) {
				data[int32](index)[i] = int32(first + i)
			}
		} else {
			index = array.New(graph.T(graph.I64, size))
			for i := range data[int64](index) {
				data[int64](index)[i] = int64(first + i)
			}
			index = index.As(n.DType)
		}
		strides := make([]int, y.Type.Rank())
		strides[n.Dimension] = 1
		work.Strided(a, y, index, strides)
		return nil
	}})
}

func (iotaOp) Doc() graph.Doc {
	return graph.Doc{Results: "t[shape]", Formula: "y[.., i, ..] = i",
		Params: "dtype: an integer or float type; shape: sizes; dimension: the one that is counted",
		Notes:  fmt.Sprintf("An integer type wraps where it is too small (u8 after %d); a float type rounds.", math.MaxUint8)}
}
