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

// Full returns a value of the given element type and shape with every element
// equal to x. For a float type x is rounded once, and a finite x must stay finite. For an
// integer type or bool, x must be a number of the type. Ranks create it without exchanging
// anything.
func Full(t *graph.Tracer, x float64, d graph.DType, shape ...int) *graph.Value {
	if !holds(d, x) {
		graph.Helper()
		graph.Fail("full: %v is no number of element type %s; want one, or another type", x, d)
	}
	return t.Apply(graph.FullOp{Value: x, DType: d, Shape: append([]int(nil), shape...)})[0]
}

// holds reports whether x is a value of the element type, or for a float type rounds
// to one: a finite x to a finite one.
func holds(d graph.DType, x float64) bool {
	whole := x == math.Trunc(x) && !math.IsInf(x, 0)
	switch d {
	case graph.Bool:
		return x == 0 || x == 1
	case graph.U8:
		return whole && x >= 0 && x <= math.MaxUint8
	case graph.U32:
		return whole && x >= 0 && x <= math.MaxUint32
	case graph.I32:
		return whole && x >= math.MinInt32 && x <= math.MaxInt32
	case graph.I64:
		return whole && x >= math.MinInt64 && x < math.MaxInt64
	}
	if d == graph.F64 || !d.IsFloat() || math.IsInf(x, 0) || math.IsNaN(x) {
		return true
	}
	one := array.New(graph.T(d))
	one.Fill(x)
	y := one.Float64s()[0]
	return !math.IsInf(y, 0) && !math.IsNaN(y)
}

// FullLike returns c for every element of x, in x's type.
func FullLike(x *graph.Value, c float64) *graph.Value {
	graph.Helper()
	if x == nil || x.Tracer() == nil {
		graph.Fail("full: the argument belongs to no trace; build inside the function given to Trace")
	}
	return Full(x.Tracer(), c, x.Type.DType, x.Type.Shape...)
}

// ZerosLike returns zeros of x's type.
func ZerosLike(x *graph.Value) *graph.Value {
	graph.Helper()
	return FullLike(x, 0)
}

// OnesLike returns ones of x's type.
func OnesLike(x *graph.Value) *graph.Value {
	graph.Helper()
	return FullLike(x, 1)
}

// MulScalar returns c · x, rounding c to x's element type.
func MulScalar(x *graph.Value, c float64) *graph.Value {
	graph.Helper()
	return Mul(x, FullLike(x, c))
}

// AddScalar returns x + c, rounding c to x's element type.
func AddScalar(x *graph.Value, c float64) *graph.Value {
	graph.Helper()
	return Add(x, FullLike(x, c))
}

// isFill reports whether v is a constant.
func isFill(v *graph.Value) bool {
	_, ok := fillOf(v)
	return ok
}

// isZero reports whether v is the constant 0. A primitive linear in two arguments
// jointly is linear in one of them if the other is 0, letting a pending sum of that
// argument pass through.
func isZero(v *graph.Value) bool {
	c, ok := fillOf(v)
	return ok && math.Float64bits(c.Value) == 0
}

// fillOf returns v if it is a constant, also after a barrier.
func fillOf(v *graph.Value) (c graph.FullOp, ok bool) {
	if v = v.Origin(); v.Def != nil {
		c, ok = v.Def.Prim.(graph.FullOp)
	}
	return c, ok
}

// zeros returns a cotangent of zeros for v, in v's trace.
func zeros(v *graph.Value) *graph.Value {
	return v.Tracer().Apply(graph.FullOp{DType: v.Type.DType.Cotangent(), Shape: v.Type.Shape})[0]
}

// zeroOf returns the scalar zero of v's element type, in v's trace.
func zeroOf(v *graph.Value) *graph.Value {
	return v.Tracer().Apply(graph.FullOp{DType: v.Type.DType})[0]
}

// iotaOp creates the indices along one dimension.
type iotaOp struct {
	DType     graph.DType
	Shape     []int
	Dimension int
}

var _ flexible = iotaOp{}

// Iota returns a value of the given shape holding 0, 1, 2, ... along the
// dimension, repeated along the others.
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

// ShardAs allows every placement except along ragged rows, because their indices
// are known only when running the program.
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
			index = scratchArray(a, graph.Type{DType: graph.I32, Shape: shape})
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

// oneHotOp maps every index to a row of zeros with a one at that index.
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
