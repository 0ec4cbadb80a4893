package nn

import (
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// stack is the matrices of all experts, or of all replicas, stacked as [Experts,out,in].
type stack struct {
	name, gguf string
	place      []string
	out        int
}

// experts applies the expert networks to rows [S,H], sorted by expert, and multiplies each row of the result by its
// weight in weights f32[S].
func (m MoE) experts(s *Scope, r primitives.Prepared, rows, weights *graph.Value) *graph.Value {
	graph.Helper()
	name := m.Matrices.named()
	d, one := rows.Type.DType, primitives.Full(s.t, 1, rows.Type.DType, rows.Dim(0), 1)
	first := func(w stack) *graph.Value {
		y := m.product(s, r, rows, w)
		if m.ExpertBias {
			y = primitives.Add(y, m.bias(s, r, one, w))
		}
		return y
	}
	gate := first(stack{"experts.*." + name.Gate, "ffn_gate_exps", []string{"ep", "tp"}, m.Width})
	up := first(stack{"experts.*." + name.Up, "ffn_up_exps", []string{"ep", "tp"}, m.Width})
	down := stack{"experts.*." + name.Down, "ffn_down_exps", []string{"ep", "", "tp"}, rows.Dim(1)}
	y := m.product(s, r, m.GLU.apply(gate, up), down)
	y = primitives.Mul(primitives.ConvertElementType(y, graph.F32), primitives.BroadcastInDim(weights, y.Type.Shape, 0))
	if m.ExpertBias {
		y = primitives.Add(y, m.bias(s, r, primitives.Reshape(weights, weights.Dim(0), 1), down))
	}
	return primitives.ConvertElementType(y, d)
}

// product multiplies each row of x[S,in] by its expert's transposed matrix, giving [S,out].
func (m MoE) product(s *Scope, r primitives.Prepared, x *graph.Value, a stack) *graph.Value {
	graph.Helper()
	in := x.Dim(1)
	w := s.matrix(a.name+".weight", a.gguf+".weight", Init{Std: 1 / math.Sqrt(float64(in))}, a.place, r.Op.Experts, a.out, in)
	y := w.perRow(r, x)
	return s.adaptRows(y, x, r, a, r.Op.Experts)
}

// bias multiplies the bias vector of each row's expert by that row's number in times [S,1], giving [S,out].
func (m MoE) bias(s *Scope, r primitives.Prepared, times *graph.Value, a stack) *graph.Value {
	graph.Helper()
	b := s.Param(a.name+".bias", a.gguf+".bias", Init{}, a.place[:min(2, len(a.place))], r.Op.Experts, a.out)
	return primitives.GroupedMatMulTransposed(r, times, primitives.Reshape(primitives.ConvertElementType(b, times.Type.DType), r.Op.Experts, a.out, 1))
}
