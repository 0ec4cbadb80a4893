package fuzzprog

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// This file has the operations with integer inputs, and operations without a value.

func (g *gen) gather(v val) {
	if v.Rank() < 1 || v.layer != nil && v.Rank() < 2 {
		return
	}
	d := g.axis(v)
	if v.Dim(d) == 0 {
		return
	}
	s := g.shape(1 + g.r.IntN(2))
	n := graph.T(graph.F64, s...).Len()
	if v.Type.Len()/v.Dim(d)*n > maxLen {
		return
	}
	g.add(primitives.Gather(v.Value, g.ints(0, v.Dim(d), s...), d), v.size, v.layer)
}

func (g *gen) scatter(v val) {
	if v.Rank() < 1 || v.layer != nil {
		return
	}
	d := g.axis(v)
	if v.Dim(d) == 0 {
		return
	}
	n := g.dim()
	s := slices.Clone(v.Type.Shape)
	s[d] = n
	u := g.like(s...)
	g.add(primitives.ScatterAdd(v.Value, g.ints(0, v.Dim(d), n), u.Value, d), v.size+float64(n)*u.size, nil)
}

func (g *gen) takeAlong(v val) {
	if v.Rank() < 1 || v.layer != nil {
		return
	}
	d := g.axis(v)
	if v.Dim(d) == 0 {
		return
	}
	s := slices.Clone(v.Type.Shape)
	s[d] = g.dim()
	g.add(primitives.TakeAlongAxis(v.Value, g.ints(0, v.Dim(d), s...), d), v.size, nil)
}

func (g *gen) embedding(val) {
	v, d := 1+g.r.IntN(8), g.dim()
	table := g.like(v, d)
	ids := g.ints(0, v, g.shape(1+g.r.IntN(2))...)
	if ids.Type.Len()*d <= maxLen {
		g.add(primitives.Embedding(table.Value, ids), table.size, nil)
	}
}

func (g *gen) crossEntropy(v val) {
	if v.Rank() < 1 || v.layer != nil || v.Dim(-1) == 0 {
		return
	}
	labels := g.ints(-1, v.Dim(-1), v.Type.Shape[:v.Rank()-1]...)
	g.add(primitives.CrossEntropy(v.Value, labels), 2*v.size+3, nil)
}

func (g *gen) attention(val) {
	b, s, n, d := g.dim(), 1+g.r.IntN(4), pick(g, []int{1, 2, 2, 4}), pick(g, []int{2, 4})
	keys, wide := s, d // keys and the width of values
	if g.chance(50) {
		keys, wide = 1+g.r.IntN(6), 1+g.r.IntN(3)
	}
	m := n
	if n%2 == 0 && g.chance(40) {
		m = n / 2
	}
	q, k, v := g.like(b, s, n, d), g.like(b, keys, m, d), g.like(b, keys, m, wide)
	qv := q.Value
	if g.chance(40) {
		var at *graph.Value
		switch g.r.IntN(3) {
		case 0:
			at = g.ints(0, 9, s)
		case 1:
			at = g.ints(0, 9, b, s)
		}
		qv = primitives.RoPE(qv, at, primitives.RoPEOp{Width: pick(g, []int{0, 2}), Interleaved: g.chance(50)})
	}
	p := primitives.AttentionParams{Full: g.chance(30)}
	if !p.Full && g.chance(30) {
		p.Window = 1 + g.r.IntN(4)
	}
	if g.chance(30) {
		p.Lengths = g.ints(0, keys+1, b)
	}
	if g.chance(30) {
		p.Start = g.ints(-1, keys, b)
	}
	if g.chance(20) {
		p.SoftCap = 2
	}
	if g.chance(20) {
		p.Sinks = g.like(n).Value
	}
	if g.chance(20) {
		p.Bias = g.like(pick(g, []int{1, b}), pick(g, []int{1, n}), s, keys).Value
	}
	out, lse := primitives.Attention(qv, k.Value, v.Value, p)
	g.add(out, v.size, nil)
	// The lse of a query without keys is -Inf.
	if everyone := p.Lengths == nil && p.Start == nil && keys >= s; everyone && p.Sinks == nil && p.Bias == nil && g.chance(40) {
		g.add(lse, q.size*k.size*float64(d)+3, nil)
	}
}

func (g *gen) recurrence(val) {
	b, t, n, k, v := g.dim(), 1+g.r.IntN(6), pick(g, []int{1, 2, 2, 4}), 1+g.r.IntN(3), 1+g.r.IntN(3)
	m := n
	if n%2 == 0 && g.chance(40) {
		m = n / 2
	}
	q, keys, values, s := g.like(b, t, m, k), g.like(b, t, m, k), g.like(b, t, n, v), g.like(b, n, k, v)
	decay := g.like(b, t, n)
	if g.chance(40) {
		decay = g.like(b, t, n, k)
	}
	p := primitives.RecurrenceParams{State: s.Value}
	if g.chance(60) {
		p.Rates = primitives.Logistic(g.like(b, t, n).Value)
	}
	if g.chance(30) {
		p.Lengths = g.ints(0, t+1, b)
	}
	state := s.size
	for range t {
		u := values.size
		if p.Rates != nil {
			u += state * keys.size * float64(k)
		}
		state += keys.size * u
	}
	if state > 1e4 {
		return
	}
	out, last := primitives.Recurrence(q.Value, keys.Value, values.Value, primitives.Neg(primitives.Square(decay.Value)), p)
	g.add(out, state*q.size*float64(k), nil)
	if g.chance(40) {
		g.add(last, state, nil)
	}
}

func (g *gen) convolution(val) {
	b, t, c, k := g.dim(), g.r.IntN(6), g.dim(), 1+g.r.IntN(4)
	x, w, s := g.like(b, t, c), g.like(c, k), g.like(b, k-1, c)
	size := float64(k) * max(x.size, s.size) * w.size
	p := primitives.ConvolutionParams{SiLU: g.chance(50)}
	if g.chance(60) {
		p.State = s.Value
	}
	if g.chance(50) {
		bias := g.like(c)
		p.Bias = bias.Value
		size += bias.size
	}
	if g.chance(40) {
		p.Lengths = g.ints(0, t+1, b)
	}
	y, last := primitives.CausalConvolution(x.Value, w.Value, p)
	g.add(y, size, nil)
	if g.chance(40) {
		g.add(last, max(x.size, s.size), nil)
	}
}

func (g *gen) dynamic(v val) {
	if v.Rank() < 1 || v.Rank() > 3 || v.layer != nil {
		return
	}
	var start []*graph.Value
	sizes := make([]int, v.Rank())
	for d := range sizes {
		sizes[d] = v.Dim(d)
		if g.chance(40) {
			sizes[d] = g.r.IntN(v.Dim(d) + 1)
		}
		start = append(start, g.ints(-1, v.Dim(d)+1))
	}
	if g.chance(50) {
		g.add(primitives.DynamicSlice(v.Value, start, sizes...), v.size, nil)
		return
	}
	u := g.like(sizes...)
	g.add(primitives.DynamicUpdateSlice(v.Value, u.Value, start...), max(v.size, u.size), nil)
}

// iota adds a value of positions.
func (g *gen) iota(val) {
	s := g.shape(1 + g.r.IntN(2))
	g.add(primitives.Iota(g.t, graph.F64, g.r.IntN(len(s)), s...), 8, nil)
}

// random adds a value depending on no input.
func (g *gen) random(val) {
	s := g.shape(g.r.IntN(3))
	g.add(primitives.RandomUniform(primitives.RandomKey(g.t, int64(g.r.IntN(9))), graph.F64, -1, 1, s...), 1, nil)
}
