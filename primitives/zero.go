package primitives

import (
	"math"

	"github.com/gomoe/gomoe/graph"
)

// isFill reports whether v is a constant.
func isFill(v *graph.Value) bool {
	if v.Def == nil {
		return false
	}
	_, ok := v.Def.Prim.(graph.FullOp)
	return ok
}

// isZero reports whether v is the constant 0. A primitive that is linear in two
// arguments together is linear in one of them if the other is 0, so that a
// pending sum of that one may pass through.
func isZero(v *graph.Value) bool {
	return isFill(v) && math.Float64bits(v.Def.Prim.(graph.FullOp).Value) == 0
}

// zeros returns a cotangent of zeros for v, in v's trace.
func zeros(v *graph.Value) *graph.Value {
	return v.Tracer().Apply(graph.FullOp{DType: v.Type.DType.Cotangent(), Shape: v.Type.Shape})[0]
}

// zeroOf returns the scalar zero of v's element type, in v's trace.
func zeroOf(v *graph.Value) *graph.Value {
	return v.Tracer().Apply(graph.FullOp{DType: v.Type.DType})[0]
}
