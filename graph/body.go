package graph

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/internal/quoted"
)

// ScanParams are the parameters of Scan. The zero ScanParams loop over slices from the
// first to the last, and the derivative recomputes the body.
type ScanParams struct {
	// Length is the number of iterations. 0 stands for the leading dimension of the
	// arrays in xs, or the length of the tables. If an array has 0 slices, no iteration
	// runs and Scan returns the carried values that it is given.
	Length int
	// Tables are inputs of an iteration given as separate arrays, one per iteration, all
	// of one type. The body receives them after the slices of xs.
	Tables [][]*Value
	// Reverse runs the iterations from the last to the first.
	Reverse bool
	// Keep makes the derivative keep the values it needs from every iteration, in memory
	// proportional to the number of iterations. Without Keep it keeps the carried values
	// of every iteration and recomputes the body, taking the time of one more forward
	// pass.
	Keep bool
}

// Scan runs body once per iteration and records the loop as one equation. body gets the
// carried values (carry in the first iteration, then the values returned by the iteration
// before) and the inputs of the iteration: slice i of each array of xs along its leading
// dimension, and entry i of each table. It returns the carried values, of the same types,
// and the results of the iteration. Scan returns the last carried values, and each result
// of the iterations stacked along a new leading dimension.
//
// body is called once, while the program is traced. It may use any value of the
// surrounding trace; such values are constants of the loop. Values made inside the body
// can be used in the body alone. Mistakes stop the trace at the user's line.
func Scan(p ScanParams, carry, xs []*Value, body func(carry, x []*Value) (c, y []*Value)) (c, y []*Value) {
	t := TracerOf(slices.Concat(append([][]*Value{carry, xs}, p.Tables...)...)...)
	if i := slices.Index(carry, nil); i >= 0 {
		Fail("scan: carried value %d is nil", i)
	}
	if t == nil {
		Fail("scan: no value to carry and none for each iteration; give at least one")
	}
	t = t.Innermost()
	pos := t.here(nil)
	s := ScanOp{Length: p.Length, Carry: len(carry), Reverse: p.Reverse, Keep: p.Keep}
	known := p.Length != 0
	iterations := func(n int) {
		if !known {
			s.Length, known = n, true
		}
	}
	in := make([]Input, 0, len(carry)+len(xs)+len(p.Tables))
	for _, v := range carry {
		in = append(in, Input{v.Name, v.Type})
	}
	for i, v := range xs {
		if v == nil || v.Rank() == 0 {
			Fail("scan: input %d of an iteration is %s, want an array with a dimension for the iterations", i, describe(v))
		}
		iterations(v.Dim(0))
		if v.Dim(0) != s.Length {
			Fail("scan: input %d of an iteration is %s, want a leading dimension of %d, one slice for each iteration", i, v.Type, s.Length)
		}
		in = append(in, Input{v.Name, Type{v.Type.DType, v.Type.Shape[1:]}})
	}
	args := slices.Concat(carry, xs)
	for i, table := range p.Tables {
		iterations(len(table))
		if len(table) != s.Length {
			Fail("scan: table %d has %d arrays, want %d, one for each iteration", i, len(table), s.Length)
		}
		if len(table) == 0 {
			Fail("scan: table %d has no arrays, which would give the type of the body's input; for a loop of 0 iterations give an array with 0 slices, or leave the loop out", i)
		}
		for k, v := range table {
			if v == nil || table[0] == nil || !v.Type.Equal(table[0].Type) {
				Fail("scan: array %d of table %d is %s, want %s as the first one", k, i, describe(v), describe(table[0]))
			}
		}
		in = append(in, Input{table[0].Name, table[0].Type})
		s.InTables = append(s.InTables, len(xs)+i)
		args = append(args, table...)
	}
	if s.Length < 0 || !known {
		Fail("scan: length %d, want the number of iterations; set ScanParams.Length to 1 or more, or give arrays with a slice for each iteration", s.Length)
	}
	prog, consts := t.Body("body", in, func(_ *Tracer, in []*Value) []*Value {
		c, y := body(in[:s.Carry:s.Carry], in[s.Carry:])
		if len(c) != s.Carry {
			Fail("scan: the body returns %d carried values, want %d as it is given", len(c), s.Carry)
		}
		for i, v := range c {
			if v == nil || !v.Type.Equal(carry[i].Type) {
				Fail("scan: the body returns carried value %d as %s, want %s as it is given", i, describe(v), carry[i].Type)
			}
		}
		return slices.Concat(c, y)
	})
	s.Body, s.Consts = prog, len(consts)
	var out []*Value
	t.At(pos, func() { out = t.Apply(s, append(consts, args...)...) })
	return out[:s.Carry:s.Carry], out[s.Carry:]
}

func describe(v *Value) string {
	if v == nil {
		return "nil"
	}
	return v.Type.String()
}

// TracerOf returns the trace where all of the values can be used: the trace that they
// belong to or, if some belong to the body of a loop, the trace of the innermost such
// body. It is nil if none of them belongs to a trace.
func TracerOf(vs ...*Value) *Tracer {
	var t *Tracer
	for _, v := range vs {
		if v != nil && v.tr != nil && (t == nil || v.tr.within(t)) {
			t = v.tr
		}
	}
	return t
}

// within reports whether t is a body inside the trace u.
func (t *Tracer) within(u *Tracer) bool {
	for o := t.outer; o != nil; o = o.outer {
		if o == u {
			return true
		}
	}
	return false
}

// Innermost returns the trace receiving equations that code adds to t now: the innermost
// body that is being traced inside t, or t.
func (t *Tracer) Innermost() *Tracer {
	for t.body != nil {
		t = t.body
	}
	return t
}

// Input is the name and the type of an input of a body. An empty or repeated name is
// replaced by a usable one.
type Input struct {
	Name string
	Type Type
}

// Body traces fn as a program of its own and passes the program's inputs to fn. Values of
// t that fn uses become inputs too, before the others; Body returns them as consts.
// Constants made by FullOp are made again in the body.
func (t *Tracer) Body(name string, in []Input, fn func(b *Tracer, in []*Value) []*Value) (body *Program, consts []*Value) {
	if !identifier(name) {
		Fail("program name %s: want a letter or _ and then letters, digits or _", quoted.Name(name))
	}
	b := &Tracer{prog: Program{Name: name}, outer: t, inside: map[*Value]*Value{}, pos: t.pos}
	args := make([]*Value, len(in))
	for i, x := range in {
		args[i] = &Value{Type: x.Type, Name: b.unused(x.Name, "x"), tr: b}
	}
	t.body = b
	defer func() { t.body, b.done = nil, true }()
	out := slices.Clone(fn(b, args))
	for i, v := range out {
		if v == nil {
			Fail("%s: result %d is nil", name, i)
		}
		out[i] = b.Inside(v)
	}
	for _, v := range b.captured {
		b.prog.In = append(b.prog.In, b.inside[v])
	}
	b.prog.In = append(b.prog.In, args...)
	for i, v := range b.prog.In {
		v.Index = i
	}
	b.prog.Out = out
	return b.Program(), b.captured
}

// unused returns a name that no other input has: the given one, or other with a suffix.
func (t *Tracer) unused(name, other string) string {
	if name == "" {
		name = other
	}
	if t.byName == nil {
		t.byName = map[string]bool{}
	}
	free := name
	for n := 1; t.byName[free]; n++ {
		free = fmt.Sprintf("%s_%d", name, n)
	}
	t.byName[free] = true
	return free
}

// Inside returns v as a value of the trace t: v itself or, if t is a body and v belongs
// to a trace around it, the body's input for v. A value of another trace stops the trace.
func (t *Tracer) Inside(v *Value) *Value {
	u, err := t.local(v)
	if err != nil {
		panic(buildError{&Error{Pos: caller(nil), Err: err}})
	}
	return u
}

// local is Inside, returning the error.
func (t *Tracer) local(v *Value) (*Value, error) {
	if v.tr == t || t.outer == nil || t.done {
		return v, t.owns(v)
	}
	if u := t.inside[v]; u != nil {
		return u, nil
	}
	if v.Def != nil && v.tr != nil && t.within(v.tr) && !v.tr.done {
		if f, ok := v.Def.Prim.(FullOp); ok {
			u := t.Apply(f)[0]
			t.inside[v] = u
			return u, nil
		}
	}
	o, err := t.outer.local(v)
	if err != nil {
		return nil, err
	}
	u := &Value{Type: v.Type, Name: t.unused(v.Name, "c"), tr: t}
	t.inside[v] = u
	t.captured = append(t.captured, o)
	if o != v {
		t.inside[o] = u
	}
	return u, nil
}

// Extend replaces the primitive of e, an equation of the trace t, by one that takes the
// same arguments and returns further results after the results of e. It appends them to
// e.Out. Derivatives use it for values of a loop that they need in addition to its
// results.
func (t *Tracer) Extend(e *Eqn, p Primitive) error {
	out, err := infer(p, e.InTypes())
	if err != nil {
		return err
	}
	if err := sameTypes(e.OutTypes(), out[:min(len(e.Out), len(out))]); err != nil {
		return fmt.Errorf("result %w", err)
	}
	e.Prim = p
	for i := len(e.Out); i < len(out); i++ {
		e.Out = append(e.Out, &Value{Type: out[i], Def: e, Index: i, tr: t})
	}
	return nil
}
