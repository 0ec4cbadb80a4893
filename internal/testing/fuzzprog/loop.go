package fuzzprog

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// loop adds a scan of a few random operations. It carries three kinds of values: a state,
// which the body reads and writes; a sum, only added to by the body, and pending until
// the loop has ended; and a sum of gradients taken by the body itself. Some loops have no
// iteration.
func (g *gen) loop(v val) {
	if g.inside > 0 || v.layer != nil || v.Type.Len() > maxLen/4 {
		return
	}
	p := graph.ScanParams{Length: 1 + g.r.IntN(4), Reverse: g.chance(30), Keep: g.chance(30)}
	if p.Length == 1 && p.Reverse { // its order is the same as without Reverse
		p.Length = 0 // an array of 0 slices implies it
	}
	n := p.Length
	carry, sizes := []*graph.Value{v.Value}, []float64{v.size}
	sum := g.like(g.shape(1 + g.r.IntN(2))...)
	if sum.Type.Len() > maxLen/4 {
		return
	}
	carry, sizes = append(carry, sum.Value), append(sizes, sum.size)

	var xs []*graph.Value
	var parts []val // the inputs of an iteration
	arrays := g.r.IntN(3)
	if n == 0 {
		arrays++
	}
	for range arrays {
		shape := g.shape(g.r.IntN(3))
		x := g.like(append([]int{n}, shape...)...)
		xs, parts = append(xs, x.Value), append(parts, val{size: x.size})
	}
	if n > 0 && g.chance(40) {
		table := []*graph.Value{}
		size, shape := 0.0, g.shape(1+g.r.IntN(2))
		for range n {
			x := g.like(shape...)
			table, size = append(table, x.Value), max(size, x.size)
		}
		p.Tables = append(p.Tables, table)
		parts = append(parts, val{size: size})
	}
	var rows, weights val // of the gradients taken by the body
	if g.chance(40) {
		b, k, f := 1+g.r.IntN(4), 1+g.r.IntN(4), 1+g.r.IntN(4)
		rows, weights = g.like(n, b, k), g.like(k, f)
		xs = append(xs, rows.Value)
		grads := g.like(k, f)
		carry, sizes = append(carry, grads.Value), append(sizes, grads.size)
	}
	var seen []float64 // the sizes of the results of iterations
	last, each := graph.Scan(p, carry, xs, func(c, x []*graph.Value) (next, y []*graph.Value) {
		s := g.enter()
		defer g.leave(s)
		state := val{c[0], sizes[0], nil}
		g.pool = append(g.pool, state)
		if weights.Value != nil { // the slice of rows is no value of the pool
			k := len(xs) - 1
			r := x[k]
			x = append(append([]*graph.Value{}, x[:k]...), x[k+1:]...)
			loss := primitives.ReduceSum(primitives.Square(primitives.Tanh(primitives.MatMul(r, weights.Value))))
			next = append(next, primitives.Add(c[2], vjp.Gradients(loss, weights.Value)[0]))
		}
		for i, v := range x {
			g.pool = append(g.pool, val{v, parts[i].size, nil})
		}
		for range 1 + g.r.IntN(3) {
			g.step()
		}
		g.finishAll()
		to := g.like(state.Type.Shape...)
		if g.chance(70) {
			to = val{primitives.Add(primitives.MulScalar(state.Value, 0.5), primitives.MulScalar(to.Value, 0.5)), max(state.size, to.size), nil}
		}
		to.Value = primitives.MulScalar(to.Value, min(1, state.size/to.size))
		part := g.like(sum.Type.Shape...)
		next = append([]*graph.Value{to.Value, primitives.Add(c[1], part.Value)}, next...)
		sizes[1] += float64(n) * part.size
		for range g.r.IntN(3) {
			if v := g.any(); v.Type.Len()*n <= maxLen {
				y, seen = append(y, v.Value), append(seen, v.size)
			}
		}
		return next, y
	})
	if weights.Value != nil {
		sizes[2] += float64(2*n*rows.Dim(1)) * rows.size
	}
	for i, v := range last {
		g.add(v, sizes[i], nil)
	}
	for i, v := range each {
		g.add(v, seen[i], nil)
	}
}

// again adds a few operations that the gradient recomputes.
func (g *gen) again(v val) {
	if g.inside > 0 || v.layer != nil {
		return
	}
	o := g.any()
	var sizes []float64
	out := vjp.Remat("again", func(_ *graph.Tracer, x []*graph.Value) []*graph.Value {
		s := g.enter()
		defer g.leave(s)
		g.pool = append(g.pool, val{x[0], v.size, nil}, val{x[1], o.size, nil})
		for range 1 + g.r.IntN(3) {
			g.step()
		}
		g.finishAll()
		var out []*graph.Value
		for range 1 + g.r.IntN(2) {
			r := g.any()
			out, sizes = append(out, r.Value), append(sizes, r.size)
		}
		return out
	}, v.Value, o.Value)
	for i, r := range out {
		g.add(r, sizes[i], nil)
	}
}

// outside is the state to restore after a body: its values and layers can be used in the
// body alone.
type outside struct {
	pool   []val
	layers []*layer
}

func (g *gen) enter() outside {
	s := outside{g.pool, g.layers}
	// Rows stay outside of the body: they belong to a layer there.
	g.pool = slices.DeleteFunc(slices.Clone(g.pool), func(v val) bool { return v.layer != nil })
	g.layers = nil
	g.inside++
	return s
}

func (g *gen) leave(s outside) {
	g.pool, g.layers = s.pool, s.layers
	g.inside--
}

// finishAll ends the layers with rows not combined yet.
func (g *gen) finishAll() {
	for _, l := range g.layers {
		g.combine(l)
	}
}
