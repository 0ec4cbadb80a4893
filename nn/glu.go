package nn

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// GLU combines the gate and up projections of a token:
//
//	g · sigmoid(Alpha·g) · (u + Shift),   g = min(gate, Limit),   u = up clamped to [-Limit, Limit]
//
// The zero GLU is SwiGLU, silu(gate) · up.
type GLU struct {
	Limit float64 // 0 means no clamping
	Alpha float64 // 0 means 1
	Shift float64
}

func (g GLU) apply(gate, up *graph.Value) *graph.Value {
	t, d := gate.Tracer(), gate.Type.DType
	if g.Limit != 0 {
		gate = primitives.Min(gate, primitives.FullLike(gate, g.Limit))
		up = primitives.Clamp(primitives.Full(t, -g.Limit, d), up, primitives.Full(t, g.Limit, d))
	}
	if g.Shift != 0 {
		up = primitives.AddScalar(up, g.Shift)
	}
	if g.Alpha == 0 || g.Alpha == 1 {
		return primitives.SwiGLU(gate, up)
	}
	return primitives.Mul(primitives.Mul(gate, primitives.Logistic(primitives.MulScalar(gate, g.Alpha))), up)
}
