package main

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	. "github.com/gomoe/gomoe/primitives"
)

// stats is what a forward pass reports about the experts.
type stats struct {
	balance, z     []*graph.Value // losses per layer, f32[]
	demand, counts []*graph.Value // pairs per expert before and after drops, i32[E] per layer
}

// logits returns the model's logits f32[B,S,V] for bytes i32[B,S], with w its
// weights f32 by name. B batch, S sequence, D width, N heads, V vocabulary; t is
// the element type to compute in.
func (c config) logits(w map[string]*graph.Value, bytes *graph.Value) (*graph.Value, stats) {
	var st stats
	x := Embedding(c.cast(w["embed"]), bytes)
	for l := range c.Layers {
		master := func(s string) *graph.Value { return w[fmt.Sprintf("l%d_%s", l, s)] }
		n := func(s string) *graph.Value { return c.cast(master(s)) }
		x = Add(x, c.attention(RMSNorm(x, n("norm1"), 1e-5), n("wq"), n("wk"), n("wv"), n("wo")))
		x = Add(x, c.moe(l, RMSNorm(x, n("norm2"), 1e-5), master("router"), n("gate"), n("up"), n("down"), &st))
	}
	return MatMulAs(graph.F32, RMSNorm(x, c.cast(w["norm"]), 1e-5), c.cast(w["head"])), st
}

// cast returns x in the element type to compute in.
func (c config) cast(x *graph.Value) *graph.Value { return ConvertElementType(x, c.DType.DType) }

// attention is causal self-attention with rotary positions, on x t[B,S,D].
func (c config) attention(x, wq, wk, wv, wo *graph.Value) *graph.Value {
	b, s, d := x.Dim(0), x.Dim(1), x.Dim(2)
	heads := func(w *graph.Value) *graph.Value { return Reshape(MatMul(x, w), b, s, c.Heads, d/c.Heads) }
	q, k, v := RoPE(heads(wq), nil, RoPEOp{}), RoPE(heads(wk), nil, RoPEOp{}), heads(wv)
	y := CausalAttention(q, k, v)
	return MatMul(Reshape(y, b, s, d), wo)
}

// moe sends every token of x t[B,S,D] to its best K experts, which are SwiGLU
// networks, and adds up their results weighted by the router, which computes in
// f32.
func (c config) moe(l int, x, router, gate, up, down *graph.Value, st *stats) *graph.Value {
	logits := MatMul(ConvertElementType(x, graph.F32), router)
	weights, experts, scores := Route(RouteOp{TopK: c.TopK, Renormalize: true}, logits, nil)
	r := Prepare(c.layer(l, x.Dim(0)*x.Dim(1)), experts)

	rows, rowWeights := DispatchWeighted(r, x, weights)
	h := SwiGLU(GroupedMatMul(r, rows, gate), GroupedMatMul(r, rows, up))
	y := GroupedMatMul(r, h, down)
	y = c.cast(Mul(ConvertElementType(y, graph.F32), BroadcastInDim(rowWeights, y.Type.Shape, 0)))

	st.balance = append(st.balance, LoadBalanceLoss(scores, r.Demand, c.TopK))
	st.z = append(st.z, RouterZLoss(logits))
	st.demand = append(st.demand, r.Demand)
	st.counts = append(st.counts, r.Counts)
	return Combine(r, y)
}

// loss returns the mean cross-entropy in nats per byte; the total that training
// minimises, which is the cross-entropy plus the balancing loss and the router's
// z-loss, averaged over layers; and the balancing loss.
func (c config) loss(w map[string]*graph.Value, bytes, targets *graph.Value) (ce, total, balance *graph.Value, st stats) {
	logits, st := c.logits(w, bytes)
	ce = MulScalar(ReduceSum(CrossEntropy(logits, targets)), 1/float64(bytes.Type.Len()))
	balance = c.mean(st.balance)
	total = Add(ce, Add(MulScalar(balance, c.Balance), MulScalar(c.mean(st.z), c.ZLoss)))
	return ce, total, balance, st
}

// mean returns the mean of one value per layer.
func (c config) mean(xs []*graph.Value) *graph.Value {
	sum := xs[0]
	for _, x := range xs[1:] {
		sum = Add(sum, x)
	}
	return MulScalar(sum, 1/float64(len(xs)))
}
