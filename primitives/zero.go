package primitives

import (
	"math"

	"github.com/gomoe/gomoe/graph"
)

// isFill reports whether v is a constant.
func isFill(v *graph.Value) bool {
	_, ok := fillOf(v)
	return ok
}

// isZero reports whether v is the constant 0. A primitive that is linear in two
// arguments together is linear in one of them if the other is 0, so that a
// pending sum of that one may pass through.
func isZero(v *graph.Value) bool {
	c, ok := fillOf(v)
	return ok && math.Float64bits(c.Value) == 0
}

// fillOf returns the constant that v is, also behind a barrier.
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
