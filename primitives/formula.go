package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/vjp"
)

// differentiate is the derivative rule of a primitive that has its own kernel for a
// formula which simple primitives can express too. It traces the formula on
// arguments of e's types, differentiates the trace, and adds the equations of the
// derivative to e's trace. Fused derivatives use it for their own derivatives, which
// are seldom needed and so may be slow.
func differentiate(e *graph.Eqn, ct []*graph.Value, formula func(in []*graph.Value) []*graph.Value) ([]*graph.Value, error) {
	p, err := graph.Trace("formula", func(t *graph.Tracer) []*graph.Value {
		in := make([]*graph.Value, len(e.In))
		for i, v := range e.In {
			in[i] = t.Input(fmt.Sprintf("x%d", i), v.Type.DType, v.Type.Shape...)
		}
		return formula(in)
	})
	if err != nil {
		return nil, err
	}
	pull, err := vjp.Pullback(p)
	if err != nil {
		return nil, err
	}
	env := map[*graph.Value]*graph.Value{}
	for i, v := range e.In {
		env[pull.In[i]] = v
	}
	for i, v := range pull.In[len(e.In):] {
		env[v] = vjp.Instantiate(ct[i], e.Out[i])
	}
	for _, q := range pull.Eqns {
		if _, ok := q.Prim.(graph.PlaceLikeOp); ok { // the caller places its gradients
			env[q.Out[0]] = env[q.In[0]]
			continue
		}
		in := make([]*graph.Value, len(q.In))
		for i, v := range q.In {
			in[i] = env[v]
		}
		for i, v := range e.Out[0].Tracer().Apply(q.Prim, in...) {
			env[q.Out[i]] = v
		}
	}
	grads, next := make([]*graph.Value, len(e.In)), 0
	for i, v := range e.In {
		if v.Type.DType.IsFloat() {
			grads[i], next = env[pull.Out[next]], next+1
		}
	}
	return grads, nil
}

// sumKept returns the sum of v over one axis, repeated along that axis.
func sumKept(v *graph.Value, axis int) *graph.Value {
	s := ReduceSumUnordered(v, axis)
	return along(s, v, axis)
}

// rowMean returns the mean of v over its last dimension, repeated along it.
func rowMean(v *graph.Value) *graph.Value {
	return MulScalar(sumKept(v, v.Rank()-1), 1/float64(v.Dim(-1)))
}

// along repeats v along an axis that it lacks and like has.
func along(v, like *graph.Value, axis int) *graph.Value {
	return BroadcastInDim(v, like.Type.Shape, kept(like.Rank(), []int{axis})...)
}

// overRows repeats v[D] for every row of like[..,D].
func overRows(v, like *graph.Value) *graph.Value {
	return BroadcastInDim(v, like.Type.Shape, like.Rank()-1)
}

// sumRows sums v[..,D] over all but its last dimension.
func sumRows(v *graph.Value) *graph.Value {
	if v.Rank() == 1 {
		return v
	}
	return graph.Apply1(reduceSumOp{Axes: kept(v.Rank(), []int{v.Rank() - 1}), Unordered: true}, v)
}
