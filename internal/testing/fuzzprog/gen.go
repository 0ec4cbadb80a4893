package fuzzprog

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// gen builds one program. It keeps a bound on the size of every float value, so that
// no program overflows or is too steep for central differences.
type gen struct {
	r       *rand.Rand
	t       *graph.Tracer
	p       Program
	pool    []val
	layers  []*layer
	customs int
	inside  int // number of bodies of loops and functions being made
}

// val is a float value that later equations may use.
type val struct {
	*graph.Value
	size  float64 // upper bound on the elements' sizes
	layer *layer  // the layer of its rows, nil for an ordinary value
}

const (
	maxInputs = 9
	maxLen    = 400 // elements of one value
	maxSize   = 4.0
)

func (g *gen) chance(percent int) bool { return g.r.IntN(100) < percent }

func pick[T any](g *gen, list []T) T { return list[g.r.IntN(len(list))] }

// program adds operations until there are enough, returning results.
func (g *gen) program() []*graph.Value {
	want := 5 + g.r.IntN(30)
	for range 1 + g.r.IntN(3) {
		g.input(g.shape(1 + g.r.IntN(3)))
	}
	if g.chance(45) {
		g.route()
	}
	for tries := 0; len(g.t.Eqns()) < want && tries < 300; tries++ {
		g.step()
	}
	g.finishAll()
	return g.results()
}

func (g *gen) step() {
	rows := slices.ContainsFunc(g.pool, func(v val) bool { return v.layer != nil })
	switch {
	case rows && g.chance(55):
		pick(g, rowOps())(g)
	case g.chance(4):
		g.route()
	default:
		pick(g, denseOps())(g)
	}
}

// results returns one to four values, mostly late ones; sometimes an input, or the
// same value twice.
func (g *gen) results() []*graph.Value {
	var out []*graph.Value
	plain := slices.DeleteFunc(slices.Clone(g.pool), func(v val) bool { return v.layer != nil })
	late := plain[max(0, len(plain)-4):]
	for range 1 + g.r.IntN(4) {
		from := late
		if g.chance(25) {
			from = plain
		}
		out = append(out, pick(g, from).Value)
	}
	if g.chance(10) {
		out = append(out, g.t.Program().In[g.r.IntN(len(g.t.Program().In))])
	}
	if g.chance(10) {
		out = append(out, out[0])
	}
	for _, l := range g.layers {
		if g.chance(15) {
			out = append(out, pick(g, []*graph.Value{l.Value, l.Dropped, l.Counts, l.Padded, l.Demand}))
		}
	}
	return out
}

// dim returns a random size, often one not divisible by the sizes of meshes, rarely 0.
func (g *gen) dim() int {
	return pick(g, []int{1, 1, 2, 2, 2, 2, 2, 3, 3, 4, 4, 4, 4, 4, 6, 6, 6, 8, 8, 8, 8, 5, 2, 4, 6, 6, 3, 7, 4, 5, 1, 0})
}

func (g *gen) shape(rank int) []int {
	s := make([]int, rank)
	n := 1
	for i := range s {
		s[i] = g.dim()
		for n*s[i] > maxLen {
			s[i] = pick(g, []int{1, 2})
			if n*s[i] > maxLen {
				s[i] = 1
			}
		}
		n *= max(s[i], 1)
	}
	return s
}

// add puts v into the pool, scaled down if it may have grown too large.
func (g *gen) add(v *graph.Value, size float64, l *layer) val {
	x := val{v, size, l}
	if size > maxSize {
		x = val{primitives.MulScalar(v, 2/size), 2, l}
	}
	g.pool = append(g.pool, x)
	return x
}

func (g *gen) input(shape []int) val {
	return g.add(g.t.Input(fmt.Sprintf("x%d", len(g.t.Program().In)), graph.F64, shape...), 1, nil)
}

// ints returns an integer input with elements from lo to hi-1, or lo if that range is
// empty.
func (g *gen) ints(lo, hi int, shape ...int) *graph.Value {
	name := fmt.Sprintf("i%d", len(g.t.Program().In))
	if hi <= lo {
		hi = lo + 1
	}
	g.p.Ranges[name] = [2]int{lo, hi}
	return g.t.Input(name, graph.I32, shape...)
}

// any returns an ordinary value of the pool, mostly a late one.
func (g *gen) any() val {
	return g.find(func(v val) bool { return v.layer == nil })
}

// find returns a value of the pool accepted by ok, mostly a late one, or the zero val if
// there is none.
func (g *gen) find(ok func(val) bool) val {
	list := slices.DeleteFunc(slices.Clone(g.pool), func(v val) bool { return !ok(v) })
	if len(list) == 0 {
		return val{}
	}
	if g.chance(60) {
		list = list[max(0, len(list)-4):]
	}
	return pick(g, list)
}

// like returns an ordinary value of this shape: a value of the pool, perhaps reshaped or
// broadcast, a new input, or a constant.
func (g *gen) like(shape ...int) val {
	n := graph.T(graph.F64, shape...).Len()
	if v := g.find(func(v val) bool { return v.layer == nil && slices.Equal(v.Type.Shape, shape) }); v.Value != nil && g.chance(75) {
		return v
	}
	if len(g.t.Program().In) < maxInputs && g.chance(50) {
		return g.input(shape)
	}
	if v := g.find(func(v val) bool { return v.layer == nil && v.Type.Len() == n }); v.Value != nil && g.chance(60) {
		return g.add(primitives.Reshape(v.Value, shape...), v.size, nil)
	}
	if v := g.find(func(v val) bool { return v.layer == nil && suffix(v.Type.Shape, shape) }); v.Value != nil && g.chance(80) {
		var dims []int
		for i := range v.Rank() {
			dims = append(dims, len(shape)-v.Rank()+i)
		}
		return g.add(primitives.BroadcastInDim(v.Value, shape, dims...), v.size, nil)
	}
	if g.chance(50) || len(g.t.Program().In) >= 2*maxInputs {
		return g.add(primitives.Full(g.t, g.constant(), graph.F64, shape...), 1, nil)
	}
	return g.input(shape)
}

// view returns a value that aliases v's memory.
func (g *gen) view(v val) val {
	x := v.Value
	switch k := g.r.IntN(4); {
	case k == 0:
		g.p.Stops = true
		x = primitives.StopGradient(x)
	case k == 1 && v.layer == nil:
		shape := v.Type.Shape
		x = primitives.Reshape(primitives.Reshape(x, v.Type.Len()), shape...)
	default:
		x = graph.Barrier(x, g.find(func(o val) bool { return o.layer == v.layer }).Value)[0]
	}
	return val{x, v.size, v.layer}
}

func suffix(s, of []int) bool {
	return len(s) <= len(of) && slices.Equal(s, of[len(of)-len(s):])
}

func (g *gen) constant() float64 { return pick(g, []float64{0, 1, -1, 0.5, 0.25, -0.75}) }

// same returns a value of v's type that may be the other argument in an elementwise
// operation on v.
func (g *gen) same(v val) val {
	if g.chance(10) {
		return v
	}
	if g.chance(5) {
		return g.view(v)
	}
	if v.layer == nil {
		return g.like(v.Type.Shape...)
	}
	o := g.find(func(o val) bool { return o.layer == v.layer && o.Type.Equal(v.Type) })
	switch k := g.r.IntN(100); {
	case k < 50:
		return o
	case k < 65:
		return val{primitives.FullLike(v.Value, g.constant()), 1, v.layer}
	}
	// A bias, the same for all rows.
	if v.Rank() == 1 {
		b := g.like()
		return val{primitives.BroadcastTo(b.Value, v.Type.Shape...), b.size, v.layer}
	}
	b := g.like(v.Type.Shape[1:]...)
	dims := make([]int, b.Rank())
	for i := range dims {
		dims[i] = i + 1
	}
	return val{primitives.BroadcastInDim(b.Value, v.Type.Shape, dims...), b.size, v.layer}
}
