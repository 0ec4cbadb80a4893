package primitives

import (
	"math"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// Full returns a value of the given element type and shape with every element
// equal to x, rounded once for a float type, in which a finite x must be finite. For an
// integer type or bool, x must be a number of the type. Ranks exchange nothing to make it.
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
