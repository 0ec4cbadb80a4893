package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Structural returns a prototype of each primitive that this package defines.
func Structural() []Primitive {
	return []Primitive{FullOp{}, AddAnyOp{}, PlaceLikeOp{}, BarrierOp{}, CustomOp{}, RematOp{}, ScanOp{}}
}

// FullOp returns an array with every element equal to Value. It has no
// arguments, so gradients end there, and it can be made in any placement: engines
// use it for zeros and ones. Value is rounded to a float DType; an integer or bool DType must have it.
type FullOp struct {
	Value float64
	DType DType
	Shape []int
}

// Moves marks FullOp as a primitive that may return 8-bit floats.
func (FullOp) Moves() {}

// Blocks marks FullOp as a primitive that may return weights in blocks: an array without
// elements, such as the results of a loop of no iteration.
func (FullOp) Blocks() {}

func (FullOp) Name() string { return "full" }

func (f FullOp) Infer(in []Type) ([]Type, error) {
	if len(in) != 0 {
		return nil, fmt.Errorf("%d arguments, want none", len(in))
	}
	if f.DType == NoDType {
		return nil, errors.New("dtype is missing; write dtype=f32")
	}
	t := Type{f.DType, f.Shape}
	if !f.DType.has(f.Value) {
		return nil, fmt.Errorf("value=%v, want one that %s has", f.Value, f.DType)
	}
	if f.DType.IsBlock() && !slices.Contains(f.Shape, 0) {
		return nil, fmt.Errorf("the result would be %s, weights in blocks; make it f32 and convert it with convert_element_type dtype=%s", t, f.DType)
	}
	return []Type{t}, nil
}

func (FullOp) Doc() Doc {
	return Doc{Results: "t[shape]", Formula: "y[...] = value", Params: "value: number; dtype: element type; shape: sizes"}
}

// AddAnyOp returns the sum of its one or more arguments, added from left to right. The
// gradient uses it if several cotangents reach one value. Unlike add it leaves pending
// sums pending.
type AddAnyOp struct{}

func (AddAnyOp) Name() string { return "add_any" }

func (AddAnyOp) Infer(in []Type) ([]Type, error) {
	if len(in) == 0 {
		return nil, errors.New("no arguments, want at least one")
	}
	for _, t := range in[1:] {
		if !t.Equal(in[0]) {
			return nil, fmt.Errorf("arguments differ in type; want all of them %s", in[0])
		}
	}
	if !in[0].DType.IsFloat() {
		return nil, fmt.Errorf("%s has no cotangents; want a float type", in[0].DType)
	}
	return []Type{in[0]}, nil
}

func (AddAnyOp) Doc() Doc {
	return Doc{Args: "x f[..], y f[..], ...", Results: "f[..]", Formula: "x + y + ...",
		Notes: "Sum of cotangents; sums that are pending over the same mesh axes stay pending."}
}

// PlaceLikeOp returns its first argument, placed on the mesh like the second one. The
// engines apply it to gradients, so that a gradient is placed like its value. Equations
// used by nothing but place_like are treated as part of a derivative: their arguments are
// gathered where needed.
type PlaceLikeOp struct{}

// PlaceLike returns x, placed as like, which has the same shape. Only the placement of like
// is used, not its elements. The usual case is a gradient placed like the optimizer's moments. If
// these are split over the ranks that hold the weight, reduce_scatter completes the pending sum, and
// each rank gets its shard.
func PlaceLike(x, like *Value) *Value { return Apply1(PlaceLikeOp{}, x, like) }

// Moves marks PlaceLikeOp as a primitive that may take 8-bit floats.
func (PlaceLikeOp) Moves() {}

func (PlaceLikeOp) Name() string { return "place_like" }

func (PlaceLikeOp) Infer(in []Type) ([]Type, error) {
	if len(in) != 2 {
		return nil, fmt.Errorf("%d arguments, want 2", len(in))
	}
	if len(in[0].Shape) != len(in[1].Shape) || !(Type{in[1].DType, in[0].Shape}).Equal(in[1]) {
		return nil, fmt.Errorf("the shapes differ; want both of one shape")
	}
	return in[:1], nil
}

func (PlaceLikeOp) Doc() Doc {
	return Doc{Args: "x t[..], like u[..]", Results: "t[..]", Formula: "y = x",
		Notes: "Moves x to the placement of like: adds its pending sum, gathers or scatters. The values of like are not read."}
}

// CustomOp applies a function with a derivative given by the user. Fn maps the arguments
// to the results; VJP maps arguments, results and the results' cotangents to one
// cotangent per argument of float type, in order.
type CustomOp struct {
	Fn  *Program
	VJP *Program
}

// Blocks marks CustomOp as a primitive that may take weights in blocks, which Fn uses.
func (CustomOp) Blocks() {}

// Moves marks CustomOp as a primitive that may take and return 8-bit floats, which the
// function converts or moves.
func (CustomOp) Moves() {}

func (CustomOp) Name() string { return "custom_vjp" }

func (c CustomOp) Infer(in []Type) ([]Type, error) {
	if c.Fn == nil || c.VJP == nil {
		return nil, errors.New("fn and vjp are missing; name two programs of this file")
	}
	if err := sameTypes(in, types(c.Fn.In)); err != nil {
		return nil, fmt.Errorf("%s: argument %w", c.Fn.Name, err)
	}
	out := types(c.Fn.Out)
	want := append(append([]Type(nil), in...), out...)
	for _, t := range out {
		if c := t.Cotangent(); c.DType != NoDType {
			want = append(want, c)
		}
	}
	if err := sameTypes(types(c.VJP.In), want); err != nil {
		return nil, fmt.Errorf("%s takes the arguments, the results and the cotangents of the float results: input %w", c.VJP.Name, err)
	}
	var ct []Type
	for _, t := range in {
		if c := t.Cotangent(); c.DType != NoDType {
			ct = append(ct, c)
		}
	}
	if err := sameTypes(types(c.VJP.Out), ct); err != nil {
		return nil, fmt.Errorf("%s returns one cotangent per float argument: result %w", c.VJP.Name, err)
	}
	return out, nil
}

func (CustomOp) Doc() Doc {
	return Doc{Args: "fn's inputs", Results: "fn's results", Formula: "fn(args)",
		Params: "fn: a program of the file; vjp: the program (args, results, cotangents) → cotangents of the float args"}
}

func sameTypes(got, want []Type) error {
	for i := range min(len(got), len(want)) {
		if !got[i].Equal(want[i]) {
			return fmt.Errorf("%d is %s, want %s", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("count is %d, want %d", len(got), len(want))
	}
	return nil
}

// called returns the program that p applies to its arguments, nil if p is no call.
func called(p Primitive) *Program {
	switch p := p.(type) {
	case CustomOp:
		return p.Fn
	case RematOp:
		return p.Fn
	}
	return nil
}

// expands reports whether p, or the body of a loop in it, has a call or a loop of no iteration.
func expands(p *Program) bool {
	return slices.ContainsFunc(p.Eqns, func(e *Eqn) bool {
		if s, ok := e.Prim.(ScanOp); ok {
			return s.Length == 0 || expands(s.Body)
		}
		return called(e.Prim) != nil
	})
}

// Most is the largest number of equations that a program may have after expanding its
// calls. Programs that call each other twice have up to 2 to the power of their depth: a
// text of 3 KB could take all memory. 262144 is 1,000 times the gradient of a layer with
// experts.
const Most = 1 << 18

// expanded returns the number of equations of p after expanding its calls, or a number
// above Most and the call exceeding it. sizes has the programs already counted.
func expanded(p *Program, sizes map[*Program]int) (n int, at *Eqn) {
	if n, ok := sizes[p]; ok {
		return n, nil
	}
	for _, e := range p.Eqns {
		inner, size := called(e.Prim), 1
		if s, ok := e.Prim.(ScanOp); ok {
			inner = s.Body
		}
		if inner != nil {
			size, at = expanded(inner, sizes)
		}
		if n += size; n > Most {
			return n, cmp.Or(at, e)
		}
	}
	sizes[p] = n
	return n, nil
}

// Inline returns p with every call, CustomOp and RematOp, replaced by the equations of
// its Fn, including calls inside a Fn or the body of a loop. A loop without iterations is
// replaced by its first carried values and results of 0 slices. If p has none of these,
// Inline returns p itself. It is an error if the result has more than Most equations. If
// ctx ends, Inline returns its cause.
func Inline(ctx context.Context, p *Program) (*Program, error) {
	if _, at := expanded(p, map[*Program]int{}); at != nil {
		return nil, newError(at.Pos, at.Prim, types(at.In), fmt.Errorf("with this call the program %s has more than %d equations, as calls of calls multiply; "+
			"call it less often, or write the repetition as a loop with scan, whose body counts once", p.Name, Most))
	}
	return inline(ctx, p)
}

func inline(ctx context.Context, p *Program) (*Program, error) {
	if !expands(p) {
		return p, nil
	}
	q, err := Trace(p.Name, func(t *Tracer) []*Value {
		env := make(map[*Value]*Value)
		for _, v := range p.In {
			env[v] = t.Input(v.Name, v.Type.DType, v.Type.Shape...)
		}
		for _, e := range p.Eqns {
			in := make([]*Value, len(e.In))
			for i, v := range e.In {
				in[i] = env[v]
			}
			var out []*Value
			prim := e.Prim
			s, loop := prim.(ScanOp)
			if loop && s.Length > 0 {
				body, err := inline(ctx, s.Body)
				if err != nil {
					FailAt(e, err)
				}
				s.Body = body
				prim = s
			}
			if loop && s.Length == 0 {
				t.At(e.Pos, func() { out = t.unlooped(s, in) })
			} else if fn := called(prim); fn != nil {
				if ctx.Err() != nil {
					FailAt(e, context.Cause(ctx))
				}
				t.At(e.Pos, func() { out = t.Replay(fn, in) }) // within the scope of e
			} else {
				t.At(e.Pos, func() { out = t.Apply(prim, in...) })
			}
			for i, v := range out {
				// A function may return one of its arguments, which keeps its own name.
				if e.Out[i].Name != "" && v.Def != nil && !slices.Contains(in, v) {
					v.Name = e.Out[i].Name
				}
				env[e.Out[i]] = v
			}
		}
		out := make([]*Value, len(p.Out))
		for i, v := range p.Out {
			out[i] = env[v]
		}
		return out
	})
	if err != nil {
		return nil, err
	}
	return inline(ctx, q)
}

// unlooped returns the results of a loop without iterations.
func (t *Tracer) unlooped(s ScanOp, in []*Value) []*Value {
	out := slices.Clone(in[s.Consts:][:s.Carry])
	for j, v := range s.Body.Out[s.Carry:] {
		if !slices.Contains(s.OutTables, j) {
			out = append(out, t.Apply(FullOp{DType: v.Type.DType, Shape: stacked(0, v.Type).Shape})...)
		}
	}
	return out
}
