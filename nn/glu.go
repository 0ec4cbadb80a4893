package nn

import (
	"github.com/gomoe/gomoe/graph"
	pr "github.com/gomoe/gomoe/primitives"
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
		gate = pr.Min(gate, pr.FullLike(gate, g.Limit))
		up = pr.Clamp(pr.Full(t, -g.Limit, d), up, pr.Full(t, g.Limit, d))
	}
	if g.Shift != 0 {
		up = pr.AddScalar(up, g.Shift)
	}
	if g.Alpha == 0 || g.Alpha == 1 {
		return pr.SwiGLU(gate, up)
	}
	return pr.Mul(pr.Mul(gate, pr.Logistic(pr.MulScalar(gate, g.Alpha))), up)
}
