package primitives

import (
	"errors"
	"fmt"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// convertElementTypeOp converts its argument to another element type. See
// array.Convert for how numbers are rounded.
type convertElementTypeOp struct{ DType graph.DType }

var _ pointwise = convertElementTypeOp{}

// ConvertElementType returns x in element type d: rounded once to nearest for floats,
// and at most the largest number in size for 8-bit floats, truncated towards 0 from floats to integers, modulo 2 to the number of bits between
// integers, and x ≠ 0 for bool. If d is x's own type, it returns x.
func ConvertElementType(x *graph.Value, d graph.DType) *graph.Value {
	if x != nil && x.Type.DType == d {
		return x
	}
	return graph.Apply1(convertElementTypeOp{d}, x)
}

func (convertElementTypeOp) Name() string { return "convert_element_type" }

// Blocks marks a primitive whose argument and result may be weights in blocks.
func (convertElementTypeOp) Blocks() {}

func (c convertElementTypeOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if c.DType == graph.NoDType {
		return nil, errors.New("dtype is missing; write dtype=f32")
	}
	if d := in[0].DType; d != c.DType && (d.IsBlock() && !c.DType.IsFloat() || c.DType.IsBlock() && !d.IsFloat()) {
		return nil, fmt.Errorf("%s to %s: weights in blocks are made of floats and make floats; convert to f32 between", d, c.DType)
	}
	return []graph.Type{in[0].With(c.DType)}, nil
}

// VJP converts the cotangent back. The cotangent of an 8-bit float is f32, so it passes
// a conversion to 8 bits and back unrounded. VJP is nil for conversions to and from
// integers, bool and blocks.
func (c convertElementTypeOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	if d := e.In[0].Type.DType.Cotangent(); d != graph.NoDType && c.DType.Cotangent() != graph.NoDType {
		return []*graph.Value{ConvertElementType(ct[0], d)}, nil
	}
	return nil, nil
}

// Shard lets pending sums pass where the conversion does not round: the terms are
// then added in the wider type.
func (c convertElementTypeOp) Shard(x *sharding.Context) (sharding.Decision, error) {
	l := sharding.NotLinear
	if exact(x.Type(0).DType, c.DType) {
		l = sharding.LinearTogether
	}
	return x.Place(sharding.Elementwise(x.Type(0), 1, 1, l))
}

// exact reports whether every value of the float type from is a value of to.
func exact(from, to graph.DType) bool {
	return from.IsFloat() && (from == to || to == graph.F64 || to == graph.F32 && from != graph.F64)
}

// Pointwise says that the result is a constant, in any placement, if the arguments are constants.
func (convertElementTypeOp) Pointwise() {}

func (c convertElementTypeOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	if in[0].Type.DType == c.DType {
		e.Alias(out[0], in[0])
		return nil
	}
	return e.Emit(lowering.KernelSpec{Op: ops.ConvertElementType, Out: out, In: in, Elementwise: true, Kernel: func(a *exec.Args) error {
		return convert(a, a.Out[0], a.In[0])
	}})
}

func (convertElementTypeOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..]", Results: "dtype[..]", Formula: "y = x", Params: "dtype: the result's element type",
		Notes: "Floats are rounded once to nearest, ties to even; beyond the range of an 8-bit float the result is its largest number, also for an infinity. From float to integer: truncated towards 0, the nearest bound if out of range, 0 for NaN. Between integers: modulo. To bool: x ≠ 0. To and from weights in blocks, along the last dimension: as package quant does, f32 in between; the derivative is zero."}
}
