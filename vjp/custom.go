package vjp

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
)

// Forward is a function of values, built inside the trace t.
type Forward func(t *graph.Tracer, x []*graph.Value) []*graph.Value

// Reverse returns the cotangents of a function's arguments x, given its results y
// and their cotangents ct. ct has one entry per result: zeros if nothing depends
// on the result, nil if the result is not a float. The answer has one entry per
// argument; nil means zero, and an argument that is not a float has nil.
type Reverse func(t *graph.Tracer, x, y, ct []*graph.Value) []*graph.Value

// Custom applies fn to args and attaches bwd as its derivative, instead of the derivative
// of fn's equations. It returns fn's results.
//
// Both functions are traced here, into programs called name and name_vjp. The equation
// custom_vjp refers to these programs; the text form prints them before the program. Both
// functions may use only the values passed to them: a value of the surrounding trace must
// be passed as an argument. bwd is differentiated like any other program when a second
// derivative is taken, and may apply Custom itself. There must be at least one argument.
//
// Mistakes stop the trace at the user's line: a wrong number of cotangents, a cotangent
// with a type other than its argument's, a name that is no identifier, and any mistake
// inside fn or bwd.
func Custom(name string, fn Forward, bwd Reverse, args ...*graph.Value) []*graph.Value {
	graph.Helper()
	types := argTypes("custom", name, args)
	if fn == nil || bwd == nil {
		graph.Fail("custom %s: the function or its derivative is nil, want both", name)
	}
	forward, err := graph.Trace(name, func(t *graph.Tracer) []*graph.Value {
		return fn(t, declare(t, "x", types))
	})
	if err != nil {
		graph.Fail("custom %s: %w", name, err)
	}
	reverse, err := graph.Trace(name+"_vjp", func(t *graph.Tracer) []*graph.Value {
		graph.Helper()
		return reverseOf(t, bwd, types, resultTypes(forward))
	})
	if err != nil {
		graph.Fail("custom %s: derivative: %w", name, err)
	}
	return graph.Apply(graph.CustomOp{Fn: forward, VJP: reverse}, args...)
}

// reverseOf traces bwd in the form of graph.CustomOp: cotangents of the float results in,
// one cotangent per float argument out.
func reverseOf(t *graph.Tracer, bwd Reverse, in, out []graph.Type) []*graph.Value {
	graph.Helper()
	x, y := declare(t, "x", in), declare(t, "y", out)
	ct := make([]*graph.Value, len(out))
	for i, typ := range out {
		if d := typ.DType.Cotangent(); d != graph.NoDType {
			ct[i] = t.Input(fmt.Sprintf("ct%d", i), d, typ.Shape...)
		}
	}
	got := bwd(t, x, y, ct)
	if len(got) != len(in) {
		graph.Fail("%d cotangents for %d arguments, want one for each, nil for zero", len(got), len(in))
	}
	var res []*graph.Value
	for i, g := range got {
		switch {
		case in[i].DType.Cotangent() == graph.NoDType:
			if g != nil {
				graph.Fail("a cotangent for argument %d, which is %s, want nil; only floats have one", i, in[i])
			}
		case g == nil:
			res = append(res, zeros(t, in[i].Cotangent()))
		case !g.Type.Equal(in[i].Cotangent()):
			graph.Fail("the cotangent of argument %d is %s, want %s, as the argument is %s", i, g.Type, in[i].Cotangent(), in[i])
		default:
			res = append(res, g)
		}
	}
	return res
}

func declare(t *graph.Tracer, prefix string, types []graph.Type) []*graph.Value {
	vs := make([]*graph.Value, len(types))
	for i, typ := range types {
		vs[i] = t.Input(fmt.Sprintf("%s%d", prefix, i), typ.DType, typ.Shape...)
	}
	return vs
}

func resultTypes(p *graph.Program) []graph.Type {
	ts := make([]graph.Type, len(p.Out))
	for i, v := range p.Out {
		ts[i] = v.Type
	}
	return ts
}
