package main

import (
	"fmt"
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/train/lm"
)

// epsilon keeps RMS norms from dividing by 0.
const epsilon = 1e-5

// Forward returns the model's logits f32[B,S,V] for bytes i32[B,S]. B batch, S sequence, D width, N heads, V vocabulary. The
// weights are f32; t is the element type to compute in.
func (m *model) Forward(s *nn.Scope, bytes *graph.Value, drop bool) *graph.Value {
	x := primitives.Embedding(cast(s, weight(s, "embed", 0.02, nil, lm.Vocab, m.Width)), bytes)
	for l := range m.Layers {
		x = s.Remat(fmt.Sprintf("layer%d", l), x, func(x *graph.Value) *graph.Value { return m.layer(s, l, x, drop) })
	}
	x = primitives.RMSNorm(x, gain(s, "norm", m.Width), epsilon)
	return primitives.MatMulAs(graph.F32, x, cast(s, weight(s, "head", m.in(), nil, m.Width, lm.Vocab)))
}

// layer is layer l, on x t[B,S,D].
func (m *model) layer(s *nn.Scope, l int, x *graph.Value, drop bool) *graph.Value {
	defer s.Tracer().Scope("layers.%d", l)()
	name := func(part string) string { return fmt.Sprintf("l%d_%s", l, part) }
	x = primitives.Add(x, m.attention(s, name, primitives.RMSNorm(x, gain(s, name("norm1"), m.Width), epsilon)))
	return primitives.Add(x, m.moe(s, name, primitives.RMSNorm(x, gain(s, name("norm2"), m.Width), epsilon), drop))
}

// attention is causal self-attention with rotary positions. Weights are declared first, so that sharded weights are
// adjacent.
func (m *model) attention(s *nn.Scope, name func(string) string, x *graph.Value) *graph.Value {
	defer s.Tracer().Scope("attention")()
	b, n, d := x.Dim(0), x.Dim(1), x.Dim(2)
	wq := cast(s, weight(s, name("wq"), m.in(), []string{"", "tp"}, d, d))
	wk := cast(s, weight(s, name("wk"), m.in(), []string{"", "tp"}, d, d))
	wv := cast(s, weight(s, name("wv"), m.in(), []string{"", "tp"}, d, d))
	wo := cast(s, weight(s, name("wo"), m.out(d), []string{"tp"}, d, d))

	heads := func(w *graph.Value) *graph.Value {
		return primitives.Reshape(primitives.MatMul(x, w), b, n, m.Heads, d/m.Heads)
	}
	q, k, v := primitives.RoPE(heads(wq), nil, primitives.RoPEOp{}), primitives.RoPE(heads(wk), nil, primitives.RoPEOp{}), heads(wv)
	y, _ := primitives.Attention(q, k, v, primitives.AttentionParams{})
	return primitives.MatMul(primitives.Reshape(y, b, n, d), wo)
}

// moe sends every token of x to its best K experts, which are SwiGLU networks, and combines their results weighted by the
// router, which computes in f32.
func (m *model) moe(s *nn.Scope, name func(string) string, x *graph.Value, drop bool) *graph.Value {
	defer s.Tracer().Scope("moe")()
	d, f, e := m.Width, m.FFN, m.Experts
	router := weight(s, name("router"), m.in(), nil, d, e)
	gate := cast(s, weight(s, name("gate"), m.in(), []string{"ep", "", "tp"}, e, d, f))
	up := cast(s, weight(s, name("up"), m.in(), []string{"ep", "", "tp"}, e, d, f))
	down := cast(s, weight(s, name("down"), m.out(f), []string{"ep", "tp"}, e, f, d))

	logits := primitives.MatMul(primitives.ConvertElementType(x, graph.F32), router)
	weights, experts, scores := primitives.Route(primitives.RouteOp{TopK: m.TopK, Renormalize: true}, logits, nil)
	op := primitives.PrepareOp{Experts: e, Label: name("moe")}
	if drop && m.Capacity > 0 {
		op.Capacity = op.CapacityFor(x.Dim(0)*x.Dim(1), m.TopK, m.Capacity)
	}
	r := primitives.Prepare(op, experts)
	s.Report(nn.Routed{Layer: name("moe"), Chosen: experts, Logits: logits, Scores: scores, Demand: r.Demand, Counts: r.Counts})

	rows, rowWeights := primitives.DispatchWeighted(r, x, weights)
	y := primitives.GroupedMatMul(r, primitives.SwiGLU(primitives.GroupedMatMul(r, rows, gate), primitives.GroupedMatMul(r, rows, up)), down)
	y = cast(s, primitives.Mul(primitives.ConvertElementType(y, graph.F32), primitives.BroadcastInDim(rowWeights, y.Type.Shape, 0)))
	return primitives.Combine(r, y)
}

// in and out are the standard deviations of initial matrices: in for matrices reading the residual stream, out for matrices
// with the given number of rows writing to it.
func (m *model) in() float64          { return 1 / math.Sqrt(float64(m.Width)) }
func (m *model) out(rows int) float64 { return 1 / math.Sqrt(float64(rows)*2*float64(m.Layers)) }

// weight declares a weight, initialized with mean 0. place gives the mesh axis splitting each dimension: experts lie on ep,
// heads and experts' columns on tp.
func weight(s *nn.Scope, name string, std float64, place []string, shape ...int) *graph.Value {
	return s.Param(name, "", nn.Init{Std: std}, place, shape...)
}

// gain declares the weights of a norm, initially 1, in the element type to compute in.
func gain(s *nn.Scope, name string, n int) *graph.Value {
	return cast(s, s.Param(name, "", nn.Init{Mean: 1}, nil, n))
}

// cast returns x in the element type to compute in.
func cast(s *nn.Scope, x *graph.Value) *graph.Value {
	return primitives.ConvertElementType(x, s.DType())
}
