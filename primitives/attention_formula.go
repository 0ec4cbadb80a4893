package primitives

import (
	"math"

	"github.com/gomoe/gomoe/graph"
)

// formula returns the cotangents of attention's q, k, v and bias. The bias's is [B,N,S,R], before
// summing over dimensions missing in the bias. It consists of simple primitives storing all scores.
// in are the arguments of attentionGradOp.
func (p attentionOp) formula(in []*graph.Value) (dq, dk, dv, dbias *graph.Value) {
	at := p.args(7)
	q, k, v, out, lse, dout, dlse := in[0], in[1], in[2], in[3], in[4], in[5], in[6]
	d := lse.Type.DType
	wide := func(x *graph.Value) *graph.Value { return ConvertElementType(x, d) }
	b, s, n, r, m := q.Dim(0), q.Dim(1), q.Dim(2), k.Dim(1), k.Dim(2)
	all := []int{b, n, s, r}
	group := n / max(m, 1)
	// heads repeats keys and values for the query heads sharing them.
	heads := func(x *graph.Value) *graph.Value {
		w := x.Dim(3)
		return Reshape(BroadcastInDim(wide(x), []int{b, r, m, group, w}, 0, 1, 2, 4), b, r, n, w)
	}
	// shared sums over the query heads sharing a key head.
	shared := func(x *graph.Value) *graph.Value {
		return ReduceSum(Reshape(x, b, r, m, group, x.Dim(3)), 3)
	}
	rows := func(x *graph.Value) *graph.Value { return BroadcastInDim(x, all, 0, 1, 2) }
	scores := func(x, y *graph.Value) *graph.Value {
		return DotGeneral(wide(x), y, []int{3}, []int{3}, []int{0, 2}, []int{0, 2})
	}
	// back returns [B,N,X,W] as [B,X,N,W].
	back := func(x *graph.Value) *graph.Value { return Transpose(x, 0, 2, 1, 3) }

	scale := p.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(max(q.Dim(3), 1)))
	}
	keys, values := heads(k), heads(v)
	x := MulScalar(scores(q, keys), scale)
	slope := FullLike(x, 1)
	if p.SoftCap != 0 {
		t := Tanh(MulScalar(x, 1/p.SoftCap))
		x, slope = MulScalar(t, p.SoftCap), Sub(slope, Square(t))
	}
	if at.bias > 0 {
		x = Add(x, BroadcastInDim(wide(in[at.bias]), all, 0, 1, 2, 3))
	}
	seen := p.seen(in, at, all)
	if at.bias > 0 { // the bias may be -Inf for all keys of a query
		seen = And(seen, rows(Ne(lse, FullLike(lse, math.Inf(-1)))))
	}
	x = Where(seen, Sub(x, rows(lse)), FullLike(x, 0)) // where no key is seen, lse is -Inf
	power := Where(seen, Exp(x), FullLike(x, 0))
	delta := Sub(Transpose(ReduceSum(Mul(wide(dout), wide(out)), 3), 0, 2, 1), dlse)
	dbias = Mul(power, Sub(scores(dout, values), rows(delta)))
	ds := MulScalar(Mul(dbias, slope), scale)
	product := func(x *graph.Value, over int, y *graph.Value) *graph.Value {
		return back(DotGeneral(x, wide(y), []int{over}, []int{1}, []int{0, 1}, []int{0, 2}))
	}
	dq = ConvertElementType(product(ds, 3, keys), q.Type.DType)
	dk = ConvertElementType(shared(product(ds, 2, q)), k.Type.DType)
	dv = ConvertElementType(shared(product(power, 2, dout)), v.Type.DType)
	return dq, dk, dv, dbias
}

// seen returns bool[B,N,S,R]: whether a query attends to a key.
func (p attentionOp) seen(in []*graph.Value, at attentionArgs, all []int) *graph.Value {
	t, s, r := in[0].Tracer(), all[2], all[3]
	key := Iota(t, graph.I32, 3, all...)
	each := func(x *graph.Value) *graph.Value { return BroadcastInDim(x, all, 0) }
	number := func(n int) *graph.Value { return FullLike(key, float64(n)) }
	length := number(r)
	if at.lengths > 0 {
		length = each(in[at.lengths])
	}
	seen := Lt(key, length)
	if p.Full {
		return seen
	}
	start := Sub(length, number(s))
	if at.start > 0 {
		start = each(in[at.start])
	}
	position := Add(start, Iota(t, graph.I32, 2, all...))
	seen = And(seen, Le(key, position))
	if p.Window > 0 {
		seen = And(seen, Gt(key, Sub(position, number(p.Window))))
	}
	return seen
}

// biasGrad returns the cotangent of the bias, the last of the arguments in of attentionGradOp.
func (p attentionOp) biasGrad(in []*graph.Value) *graph.Value {
	_, _, _, x := p.formula(in)
	bias := in[len(in)-1]
	for d := range 2 {
		if bias.Dim(d) == 1 && x.Dim(d) != 1 {
			x = ReduceSum(x, d)
			shape := append([]int{1}, x.Type.Shape...)
			if d == 1 {
				shape = []int{x.Dim(0), 1, x.Dim(1), x.Dim(2)}
			}
			x = Reshape(x, shape...)
		}
	}
	return ConvertElementType(x, bias.Type.DType)
}

// sinksGrad returns the cotangent of the sinks: -Σ exp(sink - lse) (dout·out - dlse) over
// sequences and queries.
func sinksGrad(sinks, out, lse, dout, dlse *graph.Value) *graph.Value {
	d := lse.Type.DType
	delta := Sub(Transpose(ReduceSum(Mul(ConvertElementType(dout, d), ConvertElementType(out, d)), 3), 0, 2, 1), dlse)
	power := Exp(Sub(BroadcastInDim(ConvertElementType(sinks, d), lse.Type.Shape, 1), lse))
	return ConvertElementType(Neg(ReduceSum(Mul(power, delta), 0, 2)), sinks.Type.DType)
}
