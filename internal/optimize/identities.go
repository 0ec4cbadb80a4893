package optimize

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// identities replaces the results of equations changing nothing by their arguments. Each
// rule gives the reason why no bit changes. All of these equations let pending sums and
// ragged rows pass unchanged, so the result has the placement of the argument.
//
// The following are not replaced. x + 0 and x - 0 complete a pending sum, and x + 0 turns
// -0 into 0. x · 0 is NaN for an infinite x, and -0 for a negative one. A conversion to a
// wider type and back completes pending sums in the wider type. broadcast_in_dim to the
// same shape can have any placement, unlike its argument. A division of integers by 1
// completes pending sums.
func identities(p *graph.Program) (*graph.Program, error) {
	return rewrite(p, func(t *graph.Tracer, e *graph.Eqn, in []*graph.Value) []*graph.Value {
		x := same(e.Prim, in)
		if x == nil {
			return nil
		}
		if c, ok := constant(x); ok && zero(c) {
			return nil
		}
		return []*graph.Value{x}
	})
}

// same returns the value equal to p applied to these arguments, nil if there is none.
func same(p graph.Primitive, in []*graph.Value) *graph.Value {
	switch name := primitives.NameOf(p); name {
	case "stop_gradient":
		return in[0] // programs are differentiated before being optimised, so nothing is left to stop
	case "add_any":
		if len(in) == 1 {
			return in[0] // a sum of one term
		}
	case "place_like":
		if d := definition("place_like", in[0]); d != nil && d.In[1] == in[1] {
			return in[0] // it already has that placement
		}
	case "reshape":
		to, err := graph.ParamsOf[struct{ Shape []int }](p)
		if err == nil && len(in) == 1 && slices.Equal(to.Shape, in[0].Type.Shape) {
			return in[0] // elements stay in order
		}
	case "transpose":
		return permuted(p, in[0])
	case "convert_element_type":
		// For integers the conversion completes pending sums.
		to, err := graph.ParamsOf[struct{ DType graph.DType }](p)
		if d := in[0].Type.DType; err == nil && to.DType == d && d.IsFloat() {
			return in[0]
		}
	case "neg":
		// -(-x) flips the sign bit twice; for an integer it wraps twice.
		if d := definition("neg", in[0]); d != nil {
			return d.In[0]
		}
	case "mul", "div":
		return unscaled(name, in[0], in[1])
	}
	return nil
}

// unscaled returns x for x·1, 1·x and x/1. The product of any number and 1 is
// representable, so it is not rounded. It keeps the sign of x, including 0 and infinity,
// and the bits of a NaN.
func unscaled(op string, x, y *graph.Value) *graph.Value {
	one := func(v *graph.Value) bool {
		c, ok := constant(v)
		return ok && c == 1
	}
	switch {
	case op == "mul" && one(y):
		return x
	case op == "mul" && one(x):
		return y
	case op == "div" && one(y) && x.Type.DType.IsFloat():
		return x
	}
	return nil
}

// permuted returns the transpose p of x, merged with the transpose defining x, if any. It
// returns nil if that gives the same equation again.
func permuted(p graph.Primitive, x *graph.Value) *graph.Value {
	order, err := graph.ParamsOf[struct{ Permutation []int }](p)
	perm := order.Permutation
	inner := definition("transpose", x)
	if inner != nil && err == nil {
		order, err = graph.ParamsOf[struct{ Permutation []int }](inner.Prim)
		both := make([]int, len(perm))
		for i, d := range perm {
			both[i] = order.Permutation[d]
		}
		x, perm = inner.In[0], both
	}
	switch {
	case err != nil:
		return nil
	case slices.IsSorted(perm): // every dimension is in its place
		return x
	case inner != nil:
		return primitives.Transpose(x, perm...)
	}
	return nil
}

// definition returns the equation defining v if its primitive is the one with the name.
func definition(name string, v *graph.Value) *graph.Eqn {
	if v.Def != nil && primitives.NameOf(v.Def.Prim) == name {
		return v.Def
	}
	return nil
}
