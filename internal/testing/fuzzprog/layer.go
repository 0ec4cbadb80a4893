package fuzzprog

import (
	"fmt"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// layer is an expert-parallel layer of the program with rows in the pool.
type layer struct {
	primitives.Prepared
	done bool // whether rows of the layer were combined
}

// route begins a layer: experts are chosen by an input, by top-k or by a
// router, and tokens are dispatched.
func (g *gen) route() {
	t, k := pick(g, []int{2, 4, 6, 8, 5, 8, 4, 1, 3, 7, 0}), 1+g.r.IntN(2)
	v := g.find(func(v val) bool {
		return v.layer == nil && v.Rank() == 2 && v.Type.Len() > 0 && v.Dim(0) <= 8 && v.Dim(1) <= 8
	})
	if v.Value == nil || g.chance(30) {
		v = g.like(t, pick(g, []int{1, 2, 4, 6}))
	}
	t = v.Dim(0)
	l := primitives.PrepareOp{Experts: pick(g, []int{2, 4, 5, 6, 3, 1, 8}), Align: pick(g, []int{0, 0, 0, 1, 2, 4})}
	if g.chance(40) {
		l.Capacity = 1 + g.r.IntN(4)
	}
	if l.Capacity%2 == 1 {
		l.Receive = 8 // no layer has more tokens, so no pair kept on one rank is dropped
	}
	if g.chance(15) {
		l.Axis = "a"
	}
	if g.chance(25) {
		l.Exchange = ep.Sum
	}
	var topk, weights *graph.Value
	switch g.r.IntN(4) {
	case 0:
		k = min(k, l.Experts)
		g.p.Chooses = true
		logits := g.like(t, l.Experts)
		weights, topk, _ = primitives.Route(primitives.RouteOp{TopK: k, Renormalize: g.chance(50), Epsilon: 1e-3,
			Score: pick(g, []string{"", primitives.SigmoidScore, primitives.TopKSoftmaxScore})}, logits.Value, nil)
		g.add(weights, 1, nil)
	case 1:
		k = min(k, l.Experts)
		g.p.Chooses = true
		weights, topk = primitives.TopK(g.like(t, l.Experts).Value, k)
		weights = g.add(weights, maxSize, nil).Value
	default:
		topk = g.ints(-1, l.Experts, t, k)
	}
	r := &layer{Prepared: primitives.Prepare(l, topk)}
	if l.Align == 1 && l.Receive == 0 { // some of the layers
		r.Prepared = primitives.Copies(r.Prepared, g.copies(l.Experts, t%4))
	}
	g.layers = append(g.layers, r)
	g.dispatch(r, v)
	if weights != nil || g.chance(40) {
		if weights == nil {
			weights = g.like(t, k).Value
		}
		rows, rw := primitives.DispatchWeighted(r.Prepared, v.Value, weights)
		g.add(rows, v.size, r)
		g.add(rw, maxSize, r)
	}
	if g.chance(40) {
		g.products(r, v, k)
	}
	if g.chance(15) { // another pass through the same routing
		g.dispatch(r, g.like(t, g.dim()))
	}
}

// products multiplies a few rows of the layer by each other, by their sums and by their weights,
// often by themselves or by a view of themselves, and combines the last product. These are the
// instructions that plans join.
func (g *gen) products(l *layer, tokens val, k int) {
	if tokens.Dim(1) == 0 {
		return
	}
	// Weights of size 1 keep the products small, so add inserts nothing between them.
	y, rw := primitives.DispatchWeighted(l.Prepared, primitives.MulScalar(tokens.Value, 1/tokens.size), primitives.Tanh(g.like(tokens.Dim(0), k).Value))
	spread := func(w val) val { return val{primitives.BroadcastInDim(w.Value, y.Type.Shape, 0), w.size, l} }
	list := []val{{y, 1, l}, spread(val{rw, 1, l})}
	for range 1 + g.r.IntN(3) {
		x, y := pick(g, list), pick(g, list)
		switch g.r.IntN(3) {
		case 0:
			y = x
		case 1:
			y = g.view(x)
		}
		op := primitives.Mul
		if g.chance(20) {
			op = primitives.SwiGLU
		}
		z := g.add(op(x.Value, y.Value), x.size*y.size, l)
		if g.chance(30) {
			z = spread(g.add(primitives.ReduceSum(z.Value, 1), z.size*float64(z.Dim(1)), l))
		}
		list = append(list, z)
	}
	g.finish(list[len(list)-1])
}

// copies returns one replica of each expert, in order, and more of the last expert.
func (g *gen) copies(experts, more int) *graph.Value {
	i := primitives.Iota(g.t, graph.I32, 0, experts+more)
	last := primitives.Full(g.t, float64(experts-1), graph.I32)
	return primitives.Clamp(primitives.Full(g.t, 0, graph.I32), i, last)
}

func (g *gen) dispatch(r *layer, v val) { g.add(primitives.Dispatch(r.Prepared, v.Value), v.size, r) }

// grouped multiplies rows by their experts' matrices.
func (g *gen) grouped(v val) {
	if v.Rank() != 2 {
		return
	}
	e, h, f := v.layer.Op.Experts, v.Dim(1), pick(g, []int{1, 2, 4, 6, 3, 4})
	size := v.size*float64(h) + 1
	if v.Dim(0)*f > maxLen {
		return
	}
	if g.chance(40) {
		w := g.like(e, f, h)
		g.add(apply("grouped_matmul", struct {
			Transpose bool
			Precision string
		}{true, g.precision(v)}, v.Value, w.Value, v.layer.Value), size*w.size, v.layer)
		return
	}
	w := g.like(e, h, f)
	g.add(primitives.GroupedMatMul(v.layer.Prepared, v.Value, w.Value), size*w.size, v.layer)
}

// outer adds, for each expert, the sum of products of its rows.
func (g *gen) outer(v val) {
	if v.Rank() != 2 {
		return
	}
	o := g.find(func(o val) bool { return o.layer == v.layer && o.Rank() == 2 })
	e := v.layer.Op.Experts
	if e*v.Dim(1)*o.Dim(1) > maxLen {
		return
	}
	y := apply("grouped_outer", struct{ Experts int }{e}, v.Value, o.Value, v.layer.Value)
	g.add(y, v.size*o.size*float64(v.Dim(0))+1, nil)
}

// weigh multiplies rows by one number each, which later operations may use as well.
func (g *gen) weigh(v val) {
	w := g.find(func(o val) bool { return o.layer == v.layer && o.Rank() == 1 })
	if w.Value == nil || v.Rank() != 2 {
		return
	}
	b := val{primitives.BroadcastInDim(w.Value, v.Type.Shape, 0), w.size, v.layer}
	if g.chance(30) {
		g.pool = append(g.pool, b)
	}
	if g.chance(20) {
		v = b
		if g.chance(50) {
			v = g.view(b)
		}
	}
	g.add(primitives.Mul(v.Value, b.Value), v.size*b.size, v.layer)
}

// rowConstraint leaves rows in place and may split their columns.
func (g *gen) rowConstraint(v val) {
	if v.Rank() != 2 || !g.chance(30) {
		return
	}
	g.add(primitives.ShardingConstraint(v.Value, pick(g, []string{"ep", "dp.ep", "", "dp"}), pick(g, []string{"", "a", "b"})), v.size, v.layer)
}

// finish combines rows, with their weights if there are any.
func (g *gen) finish(v val) {
	l := v.layer
	if v.Rank() != 2 {
		return
	}
	l.done = true
	k := float64(l.Value.Dim(1))
	w := g.find(func(o val) bool { return o.layer == l && o.Rank() == 1 })
	if w.Value == nil || g.chance(60) {
		g.add(primitives.Combine(l.Prepared, v.Value), v.size*k+1, nil)
		return
	}
	out := graph.Apply(primitives.CombineOp{Experts: l.Op.Experts, Capacity: l.Op.Capacity, Receive: l.Op.Receive, Align: l.Op.Align, Axis: l.Op.Axis, Exchange: l.Op.Exchange, Wire: l.Op.Wire}, v.Value, w.Value, l.Value)
	g.add(out[0], v.size*k+1, nil)
	g.add(out[1], w.size, nil)
}

// combine ends a layer with rows not combined yet.
func (g *gen) combine(l *layer) {
	if l.done {
		return
	}
	v := g.find(func(v val) bool { return v.layer == l && v.Rank() == 2 })
	if v.Value == nil {
		panic(fmt.Sprintf("seed %d: a layer without rows", g.p.Seed)) // route puts some into the pool
	}
	g.finish(v)
}
