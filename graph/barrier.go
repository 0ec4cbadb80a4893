package graph

import "errors"

// BarrierOp returns its first argument unchanged. No pass merges a value computed from
// the result with one computed from the argument. Equations that use the result run after
// the other arguments have been computed. A plan has no instruction for a barrier: the
// result aliases the argument.
type BarrierOp struct{}

// Barrier returns the values x unchanged. No pass merges a computation on the results with the
// same computation on x. Computations on any result run after all of x are computed. It costs
// nothing at run time. vjp.Remat uses barriers to recompute values in the backward pass.
func Barrier(x ...*Value) []*Value {
	Helper()
	if len(x) == 0 {
		Fail("barrier: no values, want at least one")
	}
	out := make([]*Value, len(x))
	for i, v := range x {
		args := []*Value{v}
		for j, w := range x {
			if j != i {
				args = append(args, w)
			}
		}
		out[i] = Apply1(BarrierOp{}, args...)
	}
	return out
}

// Blocks marks BarrierOp as a primitive moving weights in blocks.
func (BarrierOp) Blocks() {}

func (BarrierOp) Name() string { return "optimization_barrier" }

func (BarrierOp) Infer(in []Type) ([]Type, error) {
	if len(in) == 0 {
		return nil, errors.New("no arguments, want a value and what it waits for")
	}
	return in[:1], nil
}

func (BarrierOp) Doc() Doc {
	return Doc{Args: "x t[..], after u[..], ...", Results: "t[..]", Formula: "y = x",
		Notes: "Nothing merges across it, and what is computed from y is computed after the values that are named behind x, whose elements are not read. It costs nothing: y has the memory of x."}
}

// Origin follows barriers from v to the value that they pass on; it returns v itself if v
// is not the result of a barrier. Both hold the same elements.
func (v *Value) Origin() *Value {
	for v.Def != nil {
		if _, ok := v.Def.Prim.(BarrierOp); !ok {
			break
		}
		v = v.Def.In[0]
	}
	return v
}
