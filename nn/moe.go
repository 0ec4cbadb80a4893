package nn

import (
	"fmt"
	"math"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	pr "github.com/gomoe/gomoe/primitives"
)

// MoE is a layer of experts: a router, the part gate, sends every token to some experts, which are SwiGLU networks,
// and their results are added up with the router's weights. The mesh axis ep splits the experts, tp their columns.
type MoE struct {
	Experts int
	Width   int // of an expert
	Route   pr.RouteOp
	// Bias has the router choose by scores plus a parameter, e_score_correction_bias.
	Bias bool
	// Gate, Up and Down are the names of an expert's matrices; "" means gate_proj, up_proj and down_proj.
	Gate, Up, Down string
	// Capacity, Receive and Exchange are those of pr.PrepareOp.
	Capacity, Receive int
	Exchange          ep.Exchange
	// Shared is the width of the expert that every token uses, the part named SharedName; 0 means none. With SharedGate
	// a sigmoid of a linear function of the token multiplies its result.
	Shared     int
	SharedName string
	SharedGate bool
}

// Routed is what a layer of experts says about a step, for losses and reports.
type Routed struct {
	Logits, Scores *graph.Value // of the router, f32[..,E]
	Demand, Counts *graph.Value // pairs per expert before and after drops, i32[E]
}

// Apply returns the layer's result for x[B,S,H] as [B,S,H].
func (m MoE) Apply(s *Scope, x *graph.Value) (*graph.Value, Routed) {
	graph.Helper()
	logits := Linear{Out: m.Experts, DType: graph.F32}.Apply(s.In("gate", "ffn_gate_inp"), x)
	var bias *graph.Value
	if m.Bias {
		bias = pr.ConvertElementType(s.Param("gate.e_score_correction_bias", "exp_probs_b.bias", Init{}, nil, m.Experts), graph.F32)
	}
	weights, chosen, scores := pr.Route(m.Route, logits, bias)
	r := pr.Prepare(pr.PrepareOp{Experts: m.Experts, Capacity: m.Capacity, Receive: m.Receive, Exchange: m.Exchange, Label: s.name + "experts"}, chosen)
	rows, rowWeights := pr.DispatchWeighted(r, x, weights)

	h := x.Dim(-1)
	times := func(x *graph.Value, name, usual, gguf string, place []string, out int) *graph.Value {
		if name == "" {
			name = usual
		}
		name, in := fmt.Sprintf("experts.*.%s.weight", name), x.Dim(1)
		w := s.Param(name, gguf+".weight", Init{Std: 1 / math.Sqrt(float64(in))}, place, m.Experts, out, in)
		if w.Type.DType.IsF8() {
			return pr.GroupedScaledMatMul(r, x, w, s.scales(name, experts(place), w))
		}
		if !w.Type.DType.IsBlock() { // the product reads blocks as they are
			w = pr.ConvertElementType(w, x.Type.DType)
		}
		return pr.GroupedMatMulTransposed(r, x, w)
	}
	gate := times(rows, m.Gate, "gate_proj", "ffn_gate_exps", []string{"ep", "tp"}, m.Width)
	up := times(rows, m.Up, "up_proj", "ffn_up_exps", []string{"ep", "tp"}, m.Width)
	y := times(pr.SwiGLU(gate, up), m.Down, "down_proj", "ffn_down_exps", []string{"ep", "", "tp"}, h)
	y = pr.ConvertElementType(pr.Mul(pr.ConvertElementType(y, graph.F32), pr.BroadcastInDim(rowWeights, y.Type.Shape, 0)), x.Type.DType)
	y = pr.Combine(r, y)
	if m.Shared > 0 {
		shared := MLP{m.Shared, "_shexp"}.Apply(s.In(m.SharedName, ""), x)
		if m.SharedGate {
			g := pr.Logistic(Linear{Out: 1}.Apply(s.In(m.SharedName+"_gate", "ffn_gate_inp_shexp"), x))
			shared = pr.Mul(shared, pr.BroadcastInDim(pr.Reshape(g, g.Type.Shape[:g.Rank()-1]...), shared.Type.Shape, 0, 1))
		}
		y = pr.Add(y, shared)
	}
	return y, Routed{logits, scores, r.Demand, r.Counts}
}
