package vjp

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
)

// Rule is implemented by primitives that can be differentiated. VJP adds to the trace the
// equations mapping the cotangents of e's results to the cotangents of its arguments. A
// nil ct[i] is zero. At least one ct[i] is not nil, and only results of float type have
// cotangents: of the result's type, or f32 for 8-bit floats (graph.DType.Cotangent). The
// answer has one entry per argument, nil for zero and for arguments without cotangents;
// the answer nil stands for nil of every argument. Rules build their equations from the
// arguments and results of e, so a derivative can be differentiated again.
type Rule interface {
	graph.Primitive
	VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error)
}

// apply returns the cotangents of e's arguments. Structural primitives of package graph
// have their rules here. needed holds the values needing cotangents.
func apply(t *graph.Tracer, e *graph.Eqn, ct []*graph.Value, needed map[*graph.Value]bool) ([]*graph.Value, error) {
	switch p := e.Prim.(type) {
	case graph.FullOp:
		return nil, nil
	case graph.AddAnyOp:
		out := make([]*graph.Value, len(e.In))
		for i := range out {
			out[i] = ct[0]
		}
		return out, nil
	case graph.PlaceLikeOp:
		return []*graph.Value{t.Apply(graph.PlaceLikeOp{}, ct[0], e.In[0])[0], nil}, nil
	case graph.BarrierOp:
		return append([]*graph.Value{ct[0]}, make([]*graph.Value, len(e.In)-1)...), nil
	case graph.CustomOp:
		return call(t, p, e, ct), nil
	case graph.ScanOp:
		return scan(t, e, ct, needed)
	case graph.RematOp:
		return recompute(t, p, e, ct), nil
	case Rule:
		var in []*graph.Value
		err := graph.Guard("VJP", func() (err error) {
			in, err = p.VJP(e, ct)
			return err
		})
		return in, err
	default:
		return nil, fmt.Errorf("the primitive has no derivative; use stop_gradient where none is wanted, or attach one with a custom VJP")
	}
}

// call adds the equations of the user's VJP program, applied to arguments,
// results and cotangents.
func call(t *graph.Tracer, c graph.CustomOp, e *graph.Eqn, ct []*graph.Value) []*graph.Value {
	args := append([]*graph.Value(nil), e.In...)
	args = append(args, e.Out...)
	for i, v := range e.Out {
		if v.Type.DType.Cotangent() != graph.NoDType {
			args = append(args, instantiate(t, ct[i], v))
		}
	}
	res := t.Replay(c.VJP, args)
	out := make([]*graph.Value, len(e.In))
	for i, v := range e.In {
		if v.Type.DType.Cotangent() != graph.NoDType {
			out[i], res = res[0], res[1:]
		}
	}
	return out
}

// instantiate returns ct, or zeros of the type of v's cotangent if ct is nil.
func instantiate(t *graph.Tracer, ct, v *graph.Value) *graph.Value {
	if ct != nil {
		return ct
	}
	return zeros(t, v.Type.Cotangent())
}

// zeros returns zeros of the type.
func zeros(t *graph.Tracer, typ graph.Type) *graph.Value {
	return t.Apply(graph.FullOp{DType: typ.DType, Shape: typ.Shape})[0]
}

// Instantiate returns ct, or a cotangent of zeros for v if ct is nil. Rules of primitives
// with several results use it for results without a cotangent.
func Instantiate(ct, v *graph.Value) *graph.Value { return instantiate(v.Tracer(), ct, v) }
