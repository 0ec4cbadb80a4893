package optimize

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// constants replaces equations of constant arguments by a constant. It computes one
// element like the kernels. It keeps the equation if no constant of the text form has
// exactly these bits (a NaN, with processor-dependent bits, or a large i64), or if the
// constant would be the zero that placement rules recognise.
//
// A constant has no placement of its own: each rank makes its part of it. A replaced
// equation may have had one, like reshape and transpose, but it was whole on every rank,
// because its arguments are constants.
func constants(p *graph.Program) (*graph.Program, error) {
	return rewrite(p, func(t *graph.Tracer, e *graph.Eqn, in []*graph.Value) []*graph.Value {
		if len(in) == 0 || len(e.Out) != 1 {
			return nil
		}
		x := make([]array.Array, len(in))
		for i, v := range in {
			c, ok := constant(v)
			if !ok {
				return nil
			}
			x[i] = element(c, v.Type.DType)
		}
		y, ok := evaluate(e.Prim, x)
		if !ok {
			return nil
		}
		typ := e.Out[0].Type
		c := y.Float64s()[0]
		if zero(c) || c != c || !array.Equal(element(c, typ.DType), y) {
			return nil
		}
		return t.Apply(graph.FullOp{Value: c, DType: typ.DType, Shape: typ.Shape})
	})
}

// element returns c rounded to d, as one element of a constant.
func element(c float64, d graph.DType) array.Array {
	a := array.New(graph.T(d))
	a.Fill(c)
	return a
}

// evaluate returns an element of the result from one element of each argument. It handles
// only functions with results determined by IEEE 754 or integer arithmetic, not by the
// last bits of a library.
func evaluate(p graph.Primitive, x []array.Array) (array.Array, bool) {
	switch name := primitives.NameOf(p); name {
	case "broadcast_in_dim", "reshape", "transpose", "stop_gradient":
		return x[0], true // these only move elements
	case "add_any":
		// From left to right; 16-bit elements are added in f32 and rounded once. For two
		// elements that is plain addition.
		if len(x) == 2 {
			return arithmetic("add", x)
		}
		return x[0], len(x) == 1
	case "convert_element_type":
		to, err := graph.ParamsOf[struct{ DType graph.DType }](p)
		y := array.New(graph.T(to.DType))
		return y, err == nil && array.Convert(y, x[0]) == nil
	default:
		return arithmetic(name, x)
	}
}
