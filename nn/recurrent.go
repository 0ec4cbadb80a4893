package nn

import (
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// GatedDelta is a layer with the gated delta rule in the place of attention. Each head of values has a matrix as its
// state, in which a token replaces the value of its key. A convolution over the last Kernel tokens precedes the rule.
// Tokens have no positions but their order.
//
// The parts are in_proj_qkvz, with the queries, keys, values and output gates of each head of keys in this order;
// in_proj_ba, with the rates and decays of each head of keys; conv1d, over queries, keys and values in this order;
// A_log, dt_bias, norm and out_proj. The mesh axis tp splits the heads of keys with their heads of values. Source: Yang
// et al., "Gated Delta Networks" (2024), in the layout of Qwen3-Next.
type GatedDelta struct {
	KeyHeads, ValueHeads int     // KeyHeads divides ValueHeads
	Key, Value           int     // columns per head
	Kernel               int     // tokens of the convolution
	Epsilon              float64 // of the norm
}

// Apply returns the layer's result for x[B,S,H] and the step's states, as [B,S,H]. With Step.Queries set, it returns
// only the rows selected by Step.Tail.
func (l GatedDelta) Apply(s *Scope, x *graph.Value, st *Step) *graph.Value {
	graph.Helper()
	if l.KeyHeads < 1 || l.ValueHeads < 1 || l.Key < 1 || l.Value < 1 || l.ValueHeads%l.KeyHeads != 0 {
		graph.Fail("%d heads of keys with %d columns and %d of values with %d, want at least 1 of each, and heads of keys that divide those of values", l.KeyHeads, l.Key, l.ValueHeads, l.Value)
	}
	b, n, hidden, tp := x.Dim(0), x.Dim(1), x.Dim(2), []string{"tp"}
	values := l.ValueHeads / l.KeyHeads * l.Value              // columns per head of keys
	mixed := 2*l.Key + values                                  // the part of these that is convolved
	heads := func(x *graph.Value, from, to int) *graph.Value { // columns of each head of keys
		width := x.Dim(2) / l.KeyHeads
		return primitives.SliceInDim(primitives.Reshape(x, x.Dim(0), x.Dim(1), l.KeyHeads, width), 3, from, to)
	}
	byValue := func(x *graph.Value, width ...int) *graph.Value {
		return primitives.Reshape(x, append([]int{x.Dim(0), x.Dim(1), l.ValueHeads}, width...)...)
	}
	all := Linear{Out: l.KeyHeads * (mixed + values), Split: Columns}.Apply(s.In("in_proj_qkvz", ""), x)
	gate := byValue(st.Tail(heads(all, mixed, mixed+values)), l.Value)
	both := Linear{Out: 2 * l.ValueHeads, Split: Columns, DType: max(x.Type.DType, graph.F32)}.Apply(s.In("in_proj_ba", ""), x)
	shared := l.ValueHeads / l.KeyHeads
	rates := primitives.Logistic(byValue(heads(both, 0, shared)))
	decays := s.decays(s.steps(byValue(heads(both, shared, 2*shared)), tp), tp)

	// The channels of the convolution lie in the order of the heads, as the columns of all.
	w := s.Param("conv1d.weight", "", Init{Std: 1 / math.Sqrt(float64(l.Kernel))}, nil, l.KeyHeads*mixed, 1, l.Kernel)
	part := func(from, width int) *graph.Value {
		rows := primitives.SliceInDim(w, 0, from*l.KeyHeads, (from+width)*l.KeyHeads)
		return primitives.Reshape(rows, l.KeyHeads, width, l.Kernel)
	}
	w = primitives.Reshape(primitives.Concatenate(1, part(0, l.Key), part(l.Key, l.Key), part(2*l.Key, values)), l.KeyHeads*mixed, l.Kernel)
	c := convolution{weight: primitives.ConvertElementType(w, x.Type.DType)}

	rows := primitives.Reshape(heads(all, 0, mixed), b, n, l.KeyHeads*mixed)
	y := st.Carry(s, []Carry{
		{"conv", graph.T(x.Type.DType, 1, l.Kernel-1, l.KeyHeads*mixed), []string{"", "", "tp"}},
		{"state", graph.T(decays.Type.DType, 1, l.ValueHeads, l.Key, l.Value), []string{"", "tp"}},
	}, func(x, states []*graph.Value) (*graph.Value, []*graph.Value) {
		rows, tail := c.apply(x[0], states[0], st)
		unit := func(from int, scale float64) *graph.Value { // x·scale/√(Σx² + 1e-6)
			x, size := heads(rows, from, from+l.Key), float64(l.Key)
			return primitives.RMSNorm(x, primitives.Full(s.t, scale/math.Sqrt(size), x.Type.DType, l.Key), 1e-6/size)
		}
		v := byValue(heads(rows, 2*l.Key, mixed), l.Value)
		y, next := primitives.Recurrence(unit(0, 1/math.Sqrt(float64(l.Key))), unit(l.Key, 1), v, st.restart(x[1]), primitives.RecurrenceParams{Rates: x[2], State: states[1]})
		return y, []*graph.Value{tail, next}
	}, rows, decays, rates)
	y = primitives.SwiGLU(gate, RMSNorm{l.Epsilon}.Apply(s.In("norm", ""), st.Tail(y)))
	return Linear{Out: hidden, Split: Rows}.Apply(s.In("out_proj", ""), primitives.Reshape(y, b, y.Dim(1), l.ValueHeads*l.Value))
}

// Mamba2 is a layer with a selective state space in the place of attention. Each head has a matrix as its state, which
// decays by a step that each token chooses. A convolution over the last Kernel tokens precedes it.
//
// The parts are in_proj, with the output gates, the heads' inputs, the groups' keys and queries (B and C) and the steps
// in this order; conv1d; A_log, dt_bias, D, norm and out_proj. No mesh axis splits them. Source: Dao and Gu,
// "Transformers are SSMs" (2024).
type Mamba2 struct {
	Heads, Width  int     // columns per head
	Groups, State int     // groups of heads that share keys and queries, and the columns of these; Groups divides Heads
	Kernel        int     // tokens of the convolution
	ConvBias      bool    // in conv1d
	Bias          bool    // in in_proj and out_proj
	Least, Most   float64 // bounds of the steps; a Most of 0 means none
	Epsilon       float64 // of the norm, which is of each group by itself
}

// Apply returns the layer's result for x[B,S,H] and the step's states, as [B,S,H]. With Step.Queries set, it returns
// only the rows selected by Step.Tail.
func (l Mamba2) Apply(s *Scope, x *graph.Value, st *Step) *graph.Value {
	graph.Helper()
	if l.Heads < 1 || l.Width < 1 || l.Groups < 1 || l.State < 1 || l.Heads%l.Groups != 0 {
		graph.Fail("%d heads of %d columns in %d groups with states of %d, want at least 1 of each, and groups that divide the heads", l.Heads, l.Width, l.Groups, l.State)
	}
	b, hidden, d := x.Dim(0), x.Dim(2), x.Type.DType
	inner, keys := l.Heads*l.Width, l.Groups*l.State
	mixed := inner + 2*keys
	all := Linear{Out: inner + mixed + l.Heads, Bias: l.Bias}.Apply(s.In("in_proj", ""), x)
	part := func(x *graph.Value, from, width int) *graph.Value {
		return primitives.SliceInDim(x, 2, from, from+width)
	}
	gate := st.Tail(part(all, 0, inner))
	steps := s.steps(primitives.ConvertElementType(part(all, inner+mixed, l.Heads), max(d, graph.F32)), nil)
	if l.Least != 0 || l.Most != 0 {
		most := l.Most
		if most == 0 {
			most = math.Inf(1)
		}
		bound := func(x float64) *graph.Value { return primitives.Full(s.t, x, steps.Type.DType) }
		steps = primitives.Clamp(bound(l.Least), steps, bound(most))
	}
	w := s.Param("conv1d.weight", "", Init{Std: 1 / math.Sqrt(float64(l.Kernel))}, nil, mixed, 1, l.Kernel)
	c := convolution{weight: primitives.ConvertElementType(primitives.Reshape(w, mixed, l.Kernel), d)}
	if l.ConvBias {
		c.bias = primitives.ConvertElementType(s.Param("conv1d.bias", "", Init{}, nil, mixed), d)
	}
	skip := primitives.ConvertElementType(s.Param("D", "", Init{Mean: 1}, nil, l.Heads), d)
	y := st.Carry(s, []Carry{
		{"conv", graph.T(d, 1, l.Kernel-1, mixed), nil},
		{"state", graph.T(steps.Type.DType, 1, l.Heads, l.State, l.Width), nil},
	}, func(x, states []*graph.Value) (*graph.Value, []*graph.Value) {
		rows, tail := c.apply(x[0], states[0], st)
		b, n := rows.Dim(0), rows.Dim(1)
		group := func(from int) *graph.Value {
			return primitives.Reshape(part(rows, from, keys), b, n, l.Groups, l.State)
		}
		in := primitives.Reshape(part(rows, 0, inner), b, n, l.Heads, l.Width)
		each := func(x *graph.Value, dims ...int) *graph.Value {
			return primitives.BroadcastInDim(primitives.ConvertElementType(x, d), in.Type.Shape, dims...)
		}
		y, next := primitives.Recurrence(group(inner+keys), group(inner), primitives.Mul(in, each(x[1], 0, 1, 2)), st.restart(x[2]), primitives.RecurrenceParams{State: states[1]})
		return primitives.Add(y, primitives.Mul(in, each(skip, 2))), []*graph.Value{tail, next}
	}, part(all, inner, mixed), steps, s.decays(steps, nil))
	y = st.Tail(y)
	n := y.Dim(1)
	y = primitives.Reshape(primitives.SwiGLU(gate, primitives.Reshape(y, b, n, inner)), b, n, l.Groups, inner/l.Groups)
	y = primitives.RMSNorm(y, primitives.Full(s.t, 1, d, inner/l.Groups), l.Epsilon)
	gain := primitives.ConvertElementType(s.In("norm", "").Param("weight", "", Init{Mean: 1}, nil, inner), d)
	y = primitives.Reshape(y, b, n, inner)
	y = primitives.Mul(y, primitives.BroadcastInDim(gain, y.Type.Shape, 2))
	return Linear{Out: hidden, Bias: l.Bias}.Apply(s.In("out_proj", ""), y)
}

// steps returns softplus of x[B,S,N] plus the parameter dt_bias [N].
func (s *Scope) steps(x *graph.Value, place []string) *graph.Value {
	x = primitives.Add(x, s.perHead("dt_bias", Init{Mean: 1}, place, x))
	zero := primitives.ZerosLike(x)
	return primitives.Add(primitives.Max(x, zero), primitives.Log1p(primitives.Exp(primitives.Neg(primitives.Abs(x)))))
}

// decays returns the logarithms of decays, minus steps[B,S,N] times the exponential of the parameter A_log [N].
func (s *Scope) decays(steps *graph.Value, place []string) *graph.Value {
	return primitives.Neg(primitives.Mul(steps, primitives.Exp(s.perHead("A_log", Init{Std: 1}, place, steps))))
}

// perHead declares a parameter [N], and returns it like x[B,S,N].
func (s *Scope) perHead(name string, init Init, place []string, x *graph.Value) *graph.Value {
	p := s.Param(name, "", init, place, x.Dim(2))
	return primitives.BroadcastInDim(primitives.ConvertElementType(p, x.Type.DType), x.Type.Shape, 2)
}

// restart returns decays[B,S,N] with which every document begins with an empty state, if the step has documents.
func (st *Step) restart(decays *graph.Value) *graph.Value {
	if st == nil || st.At == nil {
		return decays
	}
	first := primitives.Eq(st.At, primitives.ZerosLike(st.At))
	return primitives.Where(primitives.BroadcastInDim(first, decays.Type.Shape, 0, 1), primitives.FullLike(decays, -1e30), decays)
}

// convolution is a causal convolution by channel, followed by SiLU.
type convolution struct{ weight, bias *graph.Value } // [C,k], and [C] or nil

// apply returns the convolution of x[B,S,C] and its last rows. If the step has documents, no row reaches into the one
// before.
func (c convolution) apply(x, state *graph.Value, st *Step) (y, last *graph.Value) {
	if st == nil || st.At == nil {
		return primitives.CausalConvolution(x, c.weight, primitives.ConvolutionParams{Bias: c.bias, State: state, SiLU: true})
	}
	channel := func(v *graph.Value) *graph.Value { return primitives.BroadcastInDim(v, x.Type.Shape, 2) }
	taps, zero := c.weight.Dim(1), primitives.Full(x.Tracer(), 0, x.Type.DType)
	y = primitives.ZerosLike(x)
	if c.bias != nil {
		y = channel(c.bias)
	}
	for j := range taps {
		back := taps - 1 - j
		w := primitives.Reshape(primitives.SliceInDim(c.weight, 1, j, j+1), x.Dim(2))
		rows := primitives.Pad(x, zero, []int{0, back, 0}, []int{0, -back, 0})
		inside := primitives.Ge(st.At, primitives.FullLike(st.At, float64(back)))
		rows = primitives.Where(primitives.BroadcastInDim(inside, x.Type.Shape, 0, 1), rows, primitives.ZerosLike(rows))
		y = primitives.Add(y, primitives.Mul(rows, channel(w)))
	}
	return primitives.SiLU(y), nil
}
