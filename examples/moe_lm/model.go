package main

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	. "github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// epsilon keeps RMS norms from dividing by 0.
const epsilon = 1e-5

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
	places := map[string][]string{}
	for _, p := range c.params() {
		places[p.name] = p.place
	}
	of := func(name string) *graph.Value { return c.cast(c.used(w[name], places[name]...)) }
	x := Embedding(of("embed"), bytes)
	for l := range c.Layers {
		args := []*graph.Value{x}
		for _, s := range []string{"norm1", "wq", "wk", "wv", "wo", "norm2", "router", "gate", "up", "down"} {
			args = append(args, w[fmt.Sprintf("l%d_%s", l, s)])
		}
		y := c.remat(fmt.Sprintf("layer%d", l), c.block(l), args)
		x = y[0]
		st.balance, st.z = append(st.balance, y[1]), append(st.z, y[2])
		st.demand, st.counts = append(st.demand, y[3]), append(st.counts, y[4])
	}
	return MatMulAs(graph.F32, RMSNorm(x, of("norm"), epsilon), of("head")), st
}

// block returns layer l as a function of its input and its weights. It returns the layer's
// output, and what stats has of a layer.
func (c config) block(l int) vjp.Forward {
	return func(t *graph.Tracer, a []*graph.Value) []*graph.Value {
		defer t.Scope("layers.%d", l)()
		x, ps := a[0], c.params()[1+10*l:] // the embedding comes before the layers
		w := func(i int) *graph.Value { return c.used(a[i], ps[i-1].place...) }
		n := func(i int) *graph.Value { return c.cast(w(i)) }
		x = Add(x, c.attention(RMSNorm(x, n(1), epsilon), n(2), n(3), n(4), n(5)))
		y, st := c.moe(l, RMSNorm(x, n(6), epsilon), w(7), n(8), n(9), n(10))
		return append([]*graph.Value{Add(x, y)}, st...)
	}
}

// remat applies a layer. As Remat says, the gradient keeps what the layer computes, or
// computes it again.
func (c config) remat(name string, layer vjp.Forward, args []*graph.Value) []*graph.Value {
	switch c.Remat {
	case rematAll:
		return vjp.Remat(name, layer, args...)
	case rematProducts:
		return vjp.RematKeep(name, vjp.KeepAny(KeepProducts, KeepExchanges), layer, args...)
	}
	return layer(args[0].Tracer(), args)
}

// cast returns x in the element type to compute in.
func (c config) cast(x *graph.Value) *graph.Value { return ConvertElementType(x, c.DType.DType) }

// attention is causal self-attention with rotary positions, on x t[B,S,D].
func (c config) attention(x, wq, wk, wv, wo *graph.Value) *graph.Value {
	defer x.Tracer().Scope("attention")()
	b, s, d := x.Dim(0), x.Dim(1), x.Dim(2)
	heads := func(w *graph.Value) *graph.Value { return Reshape(MatMul(x, w), b, s, c.Heads, d/c.Heads) }
	q, k, v := RoPE(heads(wq), nil, RoPEOp{}), RoPE(heads(wk), nil, RoPEOp{}), heads(wv)
	y, _ := Attention(q, k, v, AttentionParams{})
	return MatMul(Reshape(y, b, s, d), wo)
}

// moe sends every token of x t[B,S,D] to its best K experts, which are SwiGLU
// networks, and adds up their results weighted by the router, which computes in
// f32. It returns what stats has of a layer, too.
func (c config) moe(l int, x, router, gate, up, down *graph.Value) (sum *graph.Value, st []*graph.Value) {
	defer x.Tracer().Scope("moe")()
	logits := MatMul(ConvertElementType(x, graph.F32), router)
	weights, experts, scores := Route(RouteOp{TopK: c.TopK, Renormalize: true}, logits, nil)
	r := Prepare(c.layer(l, x.Dim(0)*x.Dim(1)), experts)

	rows, rowWeights := DispatchWeighted(r, x, weights)
	h := SwiGLU(GroupedMatMul(r, rows, gate), GroupedMatMul(r, rows, up))
	y := GroupedMatMul(r, h, down)
	y = c.cast(Mul(ConvertElementType(y, graph.F32), BroadcastInDim(rowWeights, y.Type.Shape, 0)))

	st = []*graph.Value{LoadBalanceLoss(scores, r.Demand, c.TopK), RouterZLoss(logits), r.Demand, r.Counts}
	return Combine(r, y), st
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
