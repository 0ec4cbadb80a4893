package nn

import (
	"strings"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// MoE is a mixture-of-experts layer: a router sends every token to a few experts, which are gated networks, and
// adds up their outputs using the router's weights. The mesh axis ep shards the experts, tp their columns.
type MoE struct {
	Experts int
	Width   int // of each expert
	Route   primitives.RouteOp
	// Router is the name of the router's part; "" means gate. RouterBias adds a bias parameter to its logits.
	Router     string
	RouterBias bool
	// Bias names a router parameter that is added to the scores only when choosing experts; "" means none.
	Bias string
	// Tokens i32[B,S], if not nil, choose their experts from a table, the router's parameter tid2eid [Vocab,K]. The
	// weights still come from the router.
	Tokens *graph.Value
	Vocab  int
	// Matrices and GLU apply to the experts and to the shared expert. ExpertBias adds a bias parameter per expert to
	// each product.
	Matrices   Matrices
	GLU        GLU
	ExpertBias bool
	// Capacity, Receive and Exchange are passed to primitives.PrepareOp. If Exchange is not set, Options.Exchange applies.
	Capacity, Receive int
	Exchange          ep.Exchange
	// Copies, if not nil, lists the expert of each replica, such as ep.BalanceCopies returns; if nil, Options.Copies
	// applies. Parameters then hold one matrix per replica. This is meant for frozen weights: training would update
	// each replica separately. Replication does not change a bit of the results.
	Copies ep.Copies
	// Shared is the width of the shared expert, which processes every token as the part SharedName; 0 means none.
	// SharedGate multiplies its output by the sigmoid of a linear function of the token.
	Shared     int
	SharedName string
	SharedGate bool
}

// Routed holds a layer's routing results in a step, for losses and reports.
type Routed struct {
	Layer          string       // the name of the layer's scope
	Chosen         *graph.Value // each token's chosen experts, i32[..,K]
	Logits, Scores *graph.Value // the router's, f32[..,E]
	Demand, Counts *graph.Value // pairs of token and expert, counted per expert before and after dropping, i32[E]
	Bias           string       // the name of the parameter f32[E] added to the scores when choosing experts; "" means none
}

// Apply returns the layer's output for x[B,S,H], as [B,S,H], and its routing results.
func (m MoE) Apply(s *Scope, x *graph.Value) (*graph.Value, Routed) {
	graph.Helper()
	weights, chosen, logits, scores := m.route(s, x)
	exchange := m.Exchange
	if exchange == ep.Rows {
		exchange = s.opts.Exchange
	}
	held := m.holding(s)
	op := primitives.PrepareOp{Experts: m.Experts, Capacity: m.Capacity, Receive: m.Receive, Exchange: exchange, Wire: s.opts.Wire, Label: s.name + "experts"}
	if m.Receive > 0 {
		op.Copies = len(held.copies)
	}
	r := primitives.Prepare(op, chosen)
	demand, counts := r.Demand, r.Counts
	if n := len(held.copies); n > 0 {
		table := held.param(CopiesName, "", Init{}, nil, graph.T(graph.I32, n))
		if r = primitives.Copies(r, table); m.Receive > 0 { // Receive drops further pairs, beyond Capacity
			counts = primitives.ScatterAdd(primitives.Full(s.t, 0, graph.I32, m.Experts), table, r.Counts, 0)
		}
	}
	rows, rowWeights := primitives.DispatchWeighted(r, x, weights)
	y := primitives.Combine(r, m.experts(held, r, rows, rowWeights))
	if m.Shared > 0 {
		shared := MLP{m.Shared, m.Matrices, "_shexp", m.GLU}.Apply(s.In(m.SharedName, ""), x)
		if m.SharedGate {
			g := primitives.Logistic(Linear{Out: 1}.Apply(s.In(m.SharedName+"_gate", "ffn_gate_inp_shexp"), x))
			shared = primitives.Mul(shared, primitives.BroadcastInDim(primitives.Reshape(g, g.Type.Shape[:g.Rank()-1]...), shared.Type.Shape, 0, 1))
		}
		y = primitives.Add(y, shared)
	}
	routed := Routed{Layer: strings.TrimSuffix(s.name, "."), Chosen: chosen, Logits: logits, Scores: scores, Demand: demand, Counts: counts}
	if m.Bias != "" {
		routed.Bias = s.name + m.router() + "." + m.Bias
	}
	s.Report(routed)
	return y, routed
}

// holding returns the scope for declaring the parameters of the experts or of their replicas.
func (m MoE) holding(s *Scope) *Scope {
	graph.Helper()
	copies := m.Copies
	if copies == nil && s.opts.Copies != nil {
		var err error
		if copies, err = s.opts.Copies(strings.TrimSuffix(s.name, "."), m.Experts); err != nil {
			graph.Fail("copies of the experts of %s: %w", s.name, err)
		}
	}
	if copies == nil {
		return s
	}
	if s.opts.LoRA != nil {
		graph.Fail("copies of the experts of %s with adapters that learn: each copy would learn by itself; leave the copies out", s.name)
	}
	if err := copies.Index(make([]int32, m.Experts+1), make([]int32, len(copies))); err != nil {
		graph.Fail("copies of the experts of %s: %w", s.name, err)
	}
	return &Scope{s.model, s.name, s.gguf, copies}
}

// router returns the name of the router's part.
func (m MoE) router() string {
	if m.Router == "" {
		return "gate"
	}
	return m.Router
}

// route returns the chosen experts i32[..,K] and their weights f32[..,K], along with the logits and scores of all
// experts.
func (m MoE) route(s *Scope, x *graph.Value) (weights, chosen, logits, scores *graph.Value) {
	graph.Helper()
	name := m.router()
	if m.Experts < 1 || m.Route.TopK < 1 || m.Route.TopK > m.Experts {
		graph.Fail("layer of experts %s: MoE.Experts is %d and MoE.Route.TopK %d, want at least 1 of both, and no more chosen than there are", strings.TrimSuffix(s.name, "."), m.Experts, m.Route.TopK)
	}
	logits = Linear{Out: m.Experts, Bias: m.RouterBias, DType: graph.F32}.Apply(s.In(name, "ffn_gate_inp"), x)
	var bias *graph.Value
	if m.Bias != "" {
		bias = primitives.ConvertElementType(s.Param(name+"."+m.Bias, "exp_probs_b.bias", Init{}, nil, m.Experts), graph.F32)
	}
	weights, chosen, scores = primitives.Route(m.Route, logits, bias)
	if m.Tokens == nil && s.choose == nil {
		return weights, chosen, logits, scores
	}
	if m.Tokens != nil {
		table := s.param(name+".tid2eid", "ffn_gate_tid2eid.weight", Init{}, nil, graph.T(graph.I32, m.Vocab, m.Route.TopK))
		chosen = primitives.Gather(primitives.ConvertElementType(table, graph.I32), m.Tokens, 0)
	}
	if s.choose != nil {
		chosen = s.choose(strings.TrimSuffix(s.name, "."), chosen)
	}
	if m.Route.Score == primitives.TopKSoftmaxScore {
		weights = primitives.Softmax(primitives.TakeAlongAxis(logits, chosen, logits.Rank()-1), logits.Rank()-1)
	} else {
		weights = primitives.TakeAlongAxis(scores, chosen, scores.Rank()-1)
	}
	if m.Route.Renormalize {
		total := primitives.AddScalar(primitives.ReduceSum(weights, weights.Rank()-1), m.Route.Epsilon)
		weights = primitives.Div(weights, primitives.BroadcastInDim(total, weights.Type.Shape, 0, 1))
	}
	if m.Route.Scale != 0 {
		weights = primitives.MulScalar(weights, m.Route.Scale)
	}
	return weights, chosen, logits, scores
}
