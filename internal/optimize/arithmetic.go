package optimize

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// arithmetic returns op applied to elements of one type, in that type: integers
// wrap; 16-bit floats are widened to f32 and the result is rounded once.
func arithmetic(op string, x []array.Array) (array.Array, bool) {
	switch d := x[0].Type.DType; d {
	case graph.F64:
		return apply[float64](op, x)
	case graph.F32:
		return apply[float32](op, x)
	case graph.BF16, graph.F16:
		wide := make([]array.Array, len(x))
		for i := range x {
			wide[i] = x[i].As(graph.F32)
		}
		y, ok := apply[float32](op, wide)
		if !ok {
			return y, false
		}
		return y.As(d), true
	case graph.I64:
		return apply[int64](op, x)
	case graph.I32:
		return apply[int32](op, x)
	case graph.U32:
		return apply[uint32](op, x)
	case graph.U8:
		return apply[uint8](op, x)
	}
	return array.Array{}, false
}

func apply[T uint8 | uint32 | int32 | int64 | float32 | float64](op string, x []array.Array) (array.Array, bool) {
	y := array.New(x[0].Type)
	dst, a := array.Data[T](y), array.Data[T](x[0])[0]
	switch {
	case op == "neg":
		dst[0] = -a
		return y, true
	case op == "square":
		dst[0] = a * a
		return y, true
	case len(x) != 2 || x[1].Type.DType != y.Type.DType:
		return y, false
	}
	b := array.Data[T](x[1])[0]
	switch op {
	case "add":
		dst[0] = a + b
	case "sub":
		dst[0] = a - b
	case "mul":
		dst[0] = a * b
	case "div":
		if !y.Type.DType.IsFloat() { // integer division truncates, and is defined for 0
			return y, false
		}
		dst[0] = a / b
	default:
		return y, false
	}
	return y, true
}
