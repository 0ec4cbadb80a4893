package graph

import "errors"

// BarrierOp returns its first argument unchanged. Nothing merges across it: no pass
// takes a value computed from the result for one computed from the argument. What is
// computed from the result is computed after the other arguments. A plan has no
// instruction for it: the result has the memory of the argument.
type BarrierOp struct{}

// Blocks marks BarrierOp as a primitive that moves weights in blocks.
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

// Origin returns the value that v is behind barriers, v itself if v is not the result of
// a barrier. Both hold the same elements.
func (v *Value) Origin() *Value {
	for v.Def != nil {
		if _, ok := v.Def.Prim.(BarrierOp); !ok {
			break
		}
		v = v.Def.In[0]
	}
	return v
}
