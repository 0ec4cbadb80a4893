package fuzzprog

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// op adds an operation to the program if there are suitable values.
type op func(g *gen)

func (g *gen) unary(v val) {
	x, s := v.Value, v.size
	one := func(y *graph.Value, size float64) { g.add(y, size, v.layer) }
	switch g.r.IntN(22) {
	case 20:
		one(graph.Barrier(x, g.same(v).Value)[0], s)
	case 21:
		one(vjp.Remat("again", func(_ *graph.Tracer, a []*graph.Value) []*graph.Value {
			return []*graph.Value{primitives.Tanh(primitives.Mul(primitives.Sin(a[0]), a[0]))}
		}, x)[0], 1)
	case 0:
		one(primitives.Neg(x), s)
	case 1:
		one(primitives.Tanh(x), 1)
	case 2:
		one(primitives.Sin(x), 1)
	case 3:
		one(primitives.Cos(x), 1)
	case 4:
		one(primitives.Logistic(x), 1)
	case 5:
		one(primitives.SiLU(x), s)
	case 6:
		one(primitives.GELU(x), s)
	case 7:
		one(primitives.Exp(primitives.MulScalar(x, 1/s)), math.E)
	case 8:
		one(primitives.Square(x), s*s)
	case 9:
		one(primitives.Abs(x), s)
	case 10:
		one(primitives.Log(primitives.AddScalar(primitives.Square(x), 0.5)), 4)
	case 11:
		one(primitives.Sqrt(primitives.AddScalar(primitives.Square(x), 0.5)), s+1)
	case 12:
		one(primitives.Erf(x), 1)
	case 13:
		if g.chance(30) {
			g.p.Stops = true
			one(primitives.StopGradient(x), s)
		}
	case 14:
		one(primitives.MulScalar(x, pick(g, []float64{0, -1, 0.5, 2})), 2*s)
	case 15:
		one(primitives.AddScalar(x, g.constant()), s+1)
	case 16:
		g.p.Chooses = true
		one(primitives.Where(primitives.Gt(x, primitives.ZerosLike(x)), x, primitives.ZerosLike(x)), s)
	case 17:
		if g.chance(20) {
			g.p.Jumps = true
			one(pick(g, []func(*graph.Value) *graph.Value{primitives.Floor, primitives.Round, primitives.Sign, primitives.Ceil})(x), s+1)
		}
	case 18:
		if g.chance(30) {
			g.p.Jumps = true
			one(primitives.ConvertElementType(primitives.ConvertElementType(x, pick(g, []graph.DType{graph.F32, graph.BF16, graph.F8_E4M3})), graph.F64), s)
		}
	case 19:
		one(primitives.GELUTanh(x), s)
	}
}

func (g *gen) binary(v val) {
	o := g.same(v)
	x, y := v, o
	if g.chance(30) {
		x, y = y, x
	}
	one := func(z *graph.Value, size float64) { g.add(z, size, v.layer) }
	switch g.r.IntN(9) {
	case 0, 1:
		one(primitives.Add(x.Value, y.Value), x.size+y.size)
	case 2:
		one(primitives.Sub(x.Value, y.Value), x.size+y.size)
	case 3, 4:
		one(primitives.Mul(x.Value, y.Value), x.size*y.size)
	case 5:
		one(primitives.Max(x.Value, y.Value), max(x.size, y.size))
	case 6:
		one(primitives.Min(x.Value, y.Value), max(x.size, y.size))
	case 7:
		one(primitives.Div(x.Value, primitives.AddScalar(primitives.Square(y.Value), 0.5)), 2*x.size)
	case 8:
		one(primitives.Pow(primitives.AddScalar(primitives.Square(x.Value), 0.5), primitives.MulScalar(y.Value, 1/y.size)), x.size*x.size+2)
	}
}

// custom applies x·sin(y) with a derivative of its own.
func (g *gen) custom(v val) {
	o := g.same(v)
	g.customs++
	z := vjp.Custom(fmt.Sprintf("f%d", g.customs), func(_ *graph.Tracer, x []*graph.Value) []*graph.Value {
		return []*graph.Value{primitives.Mul(x[0], primitives.Sin(x[1]))}
	}, func(_ *graph.Tracer, x, y, ct []*graph.Value) []*graph.Value {
		return []*graph.Value{primitives.Mul(ct[0], primitives.Sin(x[1])), primitives.Mul(ct[0], primitives.Mul(x[0], primitives.Cos(x[1])))}
	}, v.Value, o.Value)
	g.add(z[0], v.size, v.layer)
}

// selects picks one of three values by an integer.
func (g *gen) selects(v val) {
	if v.layer != nil {
		return
	}
	which := g.ints(-1, 4, v.Type.Shape...)
	a, b := g.same(v), g.same(v)
	g.add(primitives.SelectN(which, v.Value, a.Value, b.Value), max(v.size, a.size, b.size), nil)
}

func (g *gen) clamp(v val) {
	lo, hi := primitives.Full(g.t, -0.6, graph.F64), primitives.Full(g.t, 0.7, graph.F64)
	g.p.Chooses = true
	g.add(primitives.Clamp(lo, v.Value, hi), 1, v.layer)
}

// axis returns a random dimension of v, but never the dimension of rows in expert order.
func (g *gen) axis(v val) int {
	if v.layer != nil {
		return 1 + g.r.IntN(v.Rank()-1)
	}
	return g.r.IntN(v.Rank())
}

// along adds an operation along one dimension.
func (g *gen) along(v val) {
	if v.Rank() < 1 || v.layer != nil && v.Rank() < 2 {
		return
	}
	d := g.axis(v)
	n := v.Dim(d)
	switch g.r.IntN(10) {
	case 0, 1:
		g.add(primitives.Softmax(v.Value, d), 1, v.layer)
	case 2:
		g.add(primitives.LogSoftmax(v.Value, d), 2*v.size+3, v.layer)
	case 3:
		if n > 0 {
			g.add(primitives.LogSumExp(v.Value, d), v.size+3, v.layer)
		}
	case 4:
		g.add(primitives.CumSum(v.Value, d), v.size*float64(n)+1, v.layer)
	case 5:
		g.add(apply("cumsum", struct {
			Axis    int
			Reverse bool
		}{d, true}, v.Value), v.size*float64(n)+1, v.layer)
	case 6:
		g.p.Chooses = true
		s, _ := primitives.Sort(v.Value, d)
		g.add(s, v.size, v.layer)
	case 7:
		g.p.Chooses = true
		if v.layer == nil || v.Rank() > 1 {
			k := g.r.IntN(v.Dim(-1) + 1)
			s, _ := primitives.TopK(v.Value, k)
			g.add(s, v.size, v.layer)
		}
	case 8:
		g.add(primitives.Reverse(v.Value, d), v.size, v.layer)
	case 9:
		if n > 0 {
			g.p.Chooses = true
			i := primitives.ArgMax(v.Value, d)
			g.add(primitives.OneHot(i, n, graph.F64), 1, v.layer)
		}
	}
}

// reduce adds a reduction over some dimensions.
func (g *gen) reduce(v val) {
	var axes []int
	n := 1.0
	for d := range v.Rank() {
		if (v.layer == nil || d > 0) && g.chance(55) {
			axes = append(axes, d)
			n *= float64(v.Dim(d))
		}
	}
	if v.layer != nil && g.chance(15) { // also over the rows
		axes = append([]int{0}, axes...)
		n *= float64(v.Dim(0))
	}
	if len(axes) == 0 {
		return
	}
	l := v.layer
	if axes[0] == 0 {
		l = nil
	}
	switch k := g.r.IntN(10); {
	case k < 4:
		g.add(primitives.ReduceSum(v.Value, axes...), v.size*n+1, l)
	case k < 6:
		g.add(primitives.ReduceSumUnordered(v.Value, axes...), v.size*n+1, l)
	case k < 7 && n > 0 && (l != nil || v.layer == nil):
		g.add(primitives.ReduceMax(v.Value, axes...), v.size, l)
	case k < 8 && n > 0 && (l != nil || v.layer == nil):
		g.add(primitives.ReduceMin(v.Value, axes...), v.size, l)
	case k < 9 && n <= 4 && (l != nil || v.layer == nil):
		g.add(primitives.ReduceProd(v.Value, axes...), math.Pow(v.size+1, n), l)
	}
}

// norms adds a normalisation along the last dimension.
func (g *gen) norms(v val) {
	if v.Rank() < 1 || v.layer != nil && v.Rank() < 2 || v.Dim(-1) == 0 {
		return
	}
	n := v.Dim(-1)
	gain := g.like(n)
	size := math.Sqrt(float64(n)) * gain.size
	if g.chance(60) {
		g.add(primitives.RMSNorm(v.Value, gain.Value, 0.1), size, v.layer)
		return
	}
	bias := g.like(n)
	g.add(primitives.LayerNorm(v.Value, gain.Value, bias.Value, 0.1), size+bias.size, v.layer)
}

func (g *gen) swiglu(v val) {
	o := g.same(v)
	g.add(primitives.SwiGLU(v.Value, o.Value), v.size*o.size, v.layer)
}

func (g *gen) broadcast(v val) {
	shape, dims := []int{}, []int{}
	n := v.Type.Len()
	for d := range v.Rank() {
		if g.chance(30) && (v.layer == nil || d > 0) {
			shape = append(shape, 1+g.r.IntN(4))
			n *= shape[len(shape)-1]
		}
		dims = append(dims, len(shape))
		m := v.Dim(d)
		if m == 1 && g.chance(50) && (v.layer == nil || d > 0) {
			m = g.dim()
			n *= m
		}
		shape = append(shape, m)
	}
	if g.chance(40) && (v.layer == nil || v.Rank() > 0) {
		shape = append(shape, g.dim())
		n *= shape[len(shape)-1]
	}
	if n > maxLen || len(shape) > 5 {
		return
	}
	g.add(primitives.BroadcastInDim(v.Value, shape, dims...), v.size, v.layer)
}

// reshape merges two neighbouring dimensions, takes one apart, adds one of size
// 1, or, for ordinary values, makes any shape.
func (g *gen) reshape(v val) {
	s := slices.Clone(v.Type.Shape)
	first := 0
	if v.layer != nil {
		first = 1
	}
	switch g.r.IntN(4) {
	case 0:
		if len(s) < first+2 {
			return
		}
		d := first + g.r.IntN(len(s)-first-1)
		s[d] *= s[d+1]
		s = slices.Delete(s, d+1, d+2)
	case 1:
		if len(s) <= first {
			return
		}
		d := first + g.r.IntN(len(s)-first)
		k := pick(g, []int{1, 2, 2, 3, 4})
		if s[d]%k != 0 {
			return
		}
		s[d] /= k
		s = slices.Insert(s, d+g.r.IntN(2), k)
	case 2:
		s = slices.Insert(s, first+g.r.IntN(len(s)-first+1), 1)
	case 3:
		if first > 0 {
			return
		}
		s = []int{v.Type.Len()}
	}
	if len(s) > 5 {
		return
	}
	g.add(primitives.Reshape(v.Value, s...), v.size, v.layer)
}

func (g *gen) transpose(v val) {
	if v.Rank() < 2 {
		return
	}
	p := g.r.Perm(v.Rank())
	if v.layer != nil {
		for i, d := range p {
			if d == 0 {
				p[0], p[i] = p[i], p[0]
			}
		}
	}
	g.add(primitives.Transpose(v.Value, p...), v.size, v.layer)
}

func (g *gen) concatenate(v val) {
	if v.Rank() < 1 || v.layer != nil && v.Rank() < 2 {
		return
	}
	d := g.axis(v)
	o := val{}
	if v.layer != nil {
		o = g.same(v)
	} else {
		s := slices.Clone(v.Type.Shape)
		s[d] = g.dim()
		o = g.like(s...)
	}
	if v.Type.Len()+o.Type.Len() > maxLen {
		return
	}
	g.add(primitives.Concatenate(d, v.Value, o.Value), max(v.size, o.size), v.layer)
}

func (g *gen) slice(v val) {
	if v.Rank() < 1 || v.layer != nil && v.Rank() < 2 {
		return
	}
	d := g.axis(v)
	lo := g.r.IntN(v.Dim(d) + 1)
	hi := lo + g.r.IntN(v.Dim(d)-lo+1)
	if g.chance(60) {
		g.add(primitives.SliceInDim(v.Value, d, lo, hi), v.size, v.layer)
		return
	}
	start, limit, stride := make([]int, v.Rank()), slices.Clone(v.Type.Shape), make([]int, v.Rank())
	for i := range stride {
		stride[i] = 1
	}
	start[d], limit[d], stride[d] = lo, hi, 2
	g.add(primitives.Slice(v.Value, start, limit, stride...), v.size, v.layer)
}

func (g *gen) pad(v val) {
	if v.Rank() < 1 || v.layer != nil && v.Rank() < 2 {
		return
	}
	low, high, interior := make([]int, v.Rank()), make([]int, v.Rank()), make([]int, v.Rank())
	d := g.axis(v)
	low[d], high[d] = g.r.IntN(3), g.r.IntN(3)
	if g.chance(30) {
		interior[d] = 1
	}
	value := g.like()
	g.add(primitives.Pad(v.Value, value.Value, low, high, interior...), max(v.size, value.size), v.layer)
}

// constraint places v over an axis that a mesh may have.
func (g *gen) constraint(v val) {
	dims := make([]string, v.Rank())
	axes := []string{"a", "b", "dp", "ep"}
	first := 0
	if v.layer != nil {
		return // rows stay in place; rowConstraint places their other dimensions
	}
	for d := first; d < len(dims); d++ {
		if v.Dim(d)%2 == 0 && g.chance(40) && len(axes) > 0 {
			i := g.r.IntN(len(axes))
			dims[d] = axes[i]
			axes = slices.Delete(axes, i, i+1)
		}
	}
	g.add(primitives.ShardingConstraint(v.Value, dims...), v.size, nil)
}

// precision returns one for a product with v. Parts of f32 numbers are not continuous in
// them, so results of two meshes would differ by more than rounding: products of f32 have
// the highest.
func (g *gen) precision(v val) string {
	if v.Type.DType == graph.F32 {
		return ""
	}
	return pick(g, []string{"", "", primitives.HighPrecision, primitives.DefaultPrecision})
}

// dot contracts v with a value made for it.
func (g *gen) dot(v val) {
	var lc, lb, lf []int
	for d := range v.Rank() {
		switch k := g.r.IntN(10); {
		case v.layer != nil && d == 0:
			lf = append(lf, d)
		case k < 5:
			lc = append(lc, d)
		case k < 7 && v.layer == nil:
			lb = append(lb, d)
		default:
			lf = append(lf, d)
		}
	}
	var shape, rc, rb []int
	n := 1.0
	for _, d := range lb {
		rb = append(rb, len(shape))
		shape = append(shape, v.Dim(d))
	}
	free := g.r.IntN(2)
	if free > 0 && g.chance(50) {
		shape = append(shape, g.dim())
		free = 0
	}
	for _, d := range lc {
		rc = append(rc, len(shape))
		shape = append(shape, v.Dim(d))
		n *= float64(v.Dim(d))
	}
	if free > 0 {
		shape = append(shape, g.dim())
	}
	out := 1
	for _, d := range append(slices.Clone(lb), lf...) {
		out *= v.Dim(d)
	}
	for i, m := range shape {
		if !slices.Contains(rc, i) && !slices.Contains(rb, i) {
			out *= m
		}
	}
	if out > maxLen || len(shape) > 4 {
		return
	}
	w := g.like(shape...)
	if w.layer != nil {
		return
	}
	p := struct {
		LHSContract, RHSContract, LHSBatch, RHSBatch []int
		Precision                                    string
	}{lc, rc, lb, rb, g.precision(v)}
	g.add(apply("dot_general", p, v.Value, w.Value), v.size*w.size*n+1, v.layer)
}

// apply applies a primitive with parameters that no builder has: params is a struct of them.
func apply(name string, params any, in ...*graph.Value) *graph.Value {
	all := primitives.All()
	i := slices.IndexFunc(all, func(p graph.Primitive) bool { return p.Name() == name })
	p, err := graph.WithParams(all[i], params)
	if err != nil {
		graph.Fail("%v", err)
	}
	return graph.Apply1(p, in...)
}

func denseOps() []op {
	on := func(f func(*gen, val)) op { return func(g *gen) { f(g, g.any()) } }
	return []op{
		on((*gen).unary), on((*gen).unary), on((*gen).unary), on((*gen).unary),
		on((*gen).binary), on((*gen).binary), on((*gen).binary), on((*gen).binary),
		on((*gen).custom), on((*gen).selects), on((*gen).clamp),
		on((*gen).along), on((*gen).along), on((*gen).reduce), on((*gen).reduce), on((*gen).norms), on((*gen).swiglu),
		on((*gen).broadcast), on((*gen).reshape), on((*gen).reshape), on((*gen).transpose), on((*gen).transpose),
		on((*gen).concatenate), on((*gen).slice), on((*gen).pad),
		on((*gen).constraint), on((*gen).constraint), on((*gen).dot), on((*gen).dot), on((*gen).dot),
		on((*gen).gather), on((*gen).scatter), on((*gen).takeAlong), on((*gen).embedding), on((*gen).crossEntropy), on((*gen).attention), on((*gen).recurrence), on((*gen).convolution),
		on((*gen).dynamic), on((*gen).iota), on((*gen).random), on((*gen).inBlocks), on((*gen).scaled),
		on((*gen).loop), on((*gen).again),
	}
}

func rowOps() []op {
	on := func(f func(*gen, val)) op {
		return func(g *gen) { f(g, g.find(func(v val) bool { return v.layer != nil })) }
	}
	return []op{
		on((*gen).unary), on((*gen).unary), on((*gen).unary), on((*gen).unary),
		on((*gen).binary), on((*gen).binary), on((*gen).binary), on((*gen).binary),
		on((*gen).custom), on((*gen).clamp), on((*gen).along), on((*gen).reduce), on((*gen).norms), on((*gen).norms), on((*gen).swiglu),
		on((*gen).broadcast), on((*gen).reshape), on((*gen).reshape), on((*gen).transpose), on((*gen).concatenate), on((*gen).slice), on((*gen).pad),
		on((*gen).dot), on((*gen).gather), on((*gen).rowConstraint),
		on((*gen).grouped), on((*gen).grouped), on((*gen).grouped), on((*gen).grouped), on((*gen).outer), on((*gen).weigh), on((*gen).weigh),
		on((*gen).inBlocks), on((*gen).scaled),
		on((*gen).finish), on((*gen).finish),
	}
}
