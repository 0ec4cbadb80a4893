package graph

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/internal/quoted"
)

// Tracer records equations while model code applies primitives to values. Only
// one goroutine may use it, inside Trace.
type Tracer struct {
	prog   Program
	byName map[string]bool // inputs
	done   bool
	pos    *Pos   // when set, the position of new equations
	scope  string // of new equations, when pos is not set
	begun  *Pos   // the beginning of scope; nil outside of scopes
	failed string // the innermost scope that a panic has passed

	// For the body of a loop, which has a trace of its own:
	outer    *Tracer           // the trace around it
	inside   map[*Value]*Value // values of outer traces, and their values here
	captured []*Value          // values of outer that are inputs here, in order
	// body is the body being traced, nil if there is none.
	body *Tracer
}

// Trace runs fn and returns the program built by it: fn's inputs in order of declaration,
// its equations, and the values that it returns.
//
// Mistakes inside fn (wrong shapes, values of another trace, nil given to a builder) are
// returned as an *Error at the user's line. Trace does not recover other panics.
func Trace(name string, fn func(*Tracer) []*Value) (p *Program, err error) {
	t := &Tracer{prog: Program{Name: name}}
	defer func() {
		t.done = true
		if r := recover(); r != nil {
			be, ok := r.(buildError)
			if !ok {
				be.err = nilArgument(r, t.failed)
			}
			if be.err == nil {
				panic(r)
			}
			p, err = nil, be.err
		}
	}()
	if !identifier(name) {
		return nil, fmt.Errorf("graph: program name %s: want a letter or _ and then letters, digits or _", quoted.Name(name))
	}
	out := fn(t)
	if t.begun != nil {
		return nil, &Error{Pos: *t.begun, Err: errors.New("the scope is never ended; call the function that Scope returns, as in defer t.Scope(...)()")}
	}
	for i, v := range out {
		if v == nil {
			return nil, fmt.Errorf("graph: program %s: result %d is nil", name, i)
		}
		if err := t.owns(v); err != nil {
			return nil, &Error{Pos: t.here(nil), Err: err}
		}
	}
	t.prog.Out = out
	return t.Program(), nil
}

// Program returns the program recorded so far.
func (t *Tracer) Program() *Program {
	p := t.prog
	return &p
}

// Eqns returns the equations recorded so far. The slice is the tracer's own.
func (t *Tracer) Eqns() []*Eqn { return t.prog.Eqns }

// Input declares the next input of the program. The name is any string that is not
// empty, such as model.layers.0.weight. No other input may have it, because callers bind
// arrays to inputs by name.
func (t *Tracer) Input(name string, d DType, shape ...int) *Value {
	typ := Type{d, append([]int(nil), shape...)}
	switch {
	case name == "":
		Fail("the name of input %d is empty; give each input its own name", len(t.prog.In))
	case t.byName[name]:
		Fail("input %s is declared twice; give each input its own name", name)
	case d == NoDType || int(d) >= len(dtypes):
		Fail("input %s has no element type; use one of bool u8 u32 i32 i64 f8_e4m3 f8_e5m2 f16 bf16 f32 f64", name)
	case typ.Check() != nil:
		Fail("input %s: %w", name, typ.Check())
	case t.done:
		Fail("input %s is declared after Trace returned", name)
	}
	v := &Value{Type: typ, Name: name, Index: len(t.prog.In), tr: t}
	t.prog.In = append(t.prog.In, v)
	if t.byName == nil {
		t.byName = map[string]bool{}
	}
	t.byName[name] = true
	return v
}

// At runs fn. Equations added by fn have the position pos. Rules use it to add equations
// for an equation that the user wrote.
func (t *Tracer) At(pos Pos, fn func()) {
	old := t.pos
	t.pos = &pos
	defer func() { t.pos = old }()
	fn()
}

// Apply adds the equation p(in...) and returns its results. A mistake stops the
// trace. Builders of primitives call it.
func (t *Tracer) Apply(p Primitive, in ...*Value) []*Value {
	pos := t.here(p)
	if t.done && t.outer != nil {
		panic(buildError{&Error{Pos: pos, Prim: p.Name(), Err: errors.New("an argument belongs to the body of a loop; return it from the body")}})
	}
	if t.done {
		panic(buildError{&Error{Pos: pos, Prim: p.Name(), Err: errors.New("the trace has ended; build inside the function given to Trace")}})
	}
	in = slices.Clone(in)
	for i, v := range in {
		if v == nil {
			panic(buildError{&Error{Pos: pos, Prim: p.Name(), Err: fmt.Errorf("argument %d is nil", i)}})
		}
		var err error
		if in[i], err = t.local(v); err != nil {
			panic(buildError{&Error{Pos: pos, Err: err}})
		}
	}
	out, err := infer(p, types(in))
	if err != nil {
		panic(buildError{newError(pos, p, types(in), err)})
	}
	e := &Eqn{Prim: p, In: in, Pos: pos}
	for i, typ := range out {
		if err := typ.Check(); err != nil {
			panic(buildError{newError(pos, p, types(in), fmt.Errorf("the result %w", err))})
		}
		e.Out = append(e.Out, &Value{Type: typ, Def: e, Index: i, tr: t})
	}
	t.prog.Eqns = append(t.prog.Eqns, e)
	return slices.Clone(e.Out) // the caller may write to the list that it gets
}

// described returns the form of v in errors: value x f32[8] or, without a name, value
// f32[8] of exp (moe.go:24).
func (v *Value) described() string {
	if v.Name == "" && v.Def != nil {
		return fmt.Sprintf("value %s of %s (%s)", v.Type, v.Def.Prim.Name(), v.Def.Pos)
	}
	return fmt.Sprintf("value %s %s", v.Name, v.Type)
}

// owns returns an error if v is not a value of this trace.
func (t *Tracer) owns(v *Value) error {
	if v.tr != t && v.tr != nil && v.tr.outer != nil {
		return fmt.Errorf("%s belongs to the body of a loop; return it from the body", v.described())
	}
	if v.tr != t {
		return fmt.Errorf("%s belongs to another trace; pass it as an input", v.described())
	}
	if t.done {
		return fmt.Errorf("%s is used after Trace returned", v.described())
	}
	return nil
}

// Apply adds the equation p(in...) to the trace of its arguments and returns the results.
// If an argument belongs to the body of a loop, this is the body's trace (see TracerOf).
// There must be at least one argument.
func Apply(p Primitive, in ...*Value) []*Value {
	if t := TracerOf(in...); t != nil {
		return t.Apply(p, in...)
	}
	panic(buildError{&Error{Pos: caller(p), Prim: p.Name(), Err: errors.New("no argument belongs to a trace")}})
}

// Apply1 is Apply for primitives with one result, which it returns.
func Apply1(p Primitive, in ...*Value) *Value {
	out := Apply(p, in...)
	if len(out) == 0 {
		panic(buildError{newError(caller(p), p, types(in), errors.New("Infer returns no result, want one"))})
	}
	return out[0]
}

// Replay applies p's equations to args, one per input of p, in the trace t. It returns
// the values of p's results in that trace. The scopes of p's equations lie within the
// scope of the call of Replay.
func (t *Tracer) Replay(p *Program, args []*Value) []*Value {
	if len(args) != len(p.In) {
		Fail("program %s is given %d arguments, want %d", p.Name, len(args), len(p.In))
	}
	env := make(map[*Value]*Value, len(p.In)+len(p.Eqns))
	for i, v := range p.In {
		env[v] = args[i]
	}
	for _, e := range p.Eqns {
		in := make([]*Value, len(e.In))
		for i, v := range e.In {
			in[i] = env[v]
		}
		pos := e.Pos
		pos.Scope = joinScopes(t.inScope(), pos.Scope)
		t.At(pos, func() {
			for i, v := range t.Apply(e.Prim, in...) {
				v.Name = e.Out[i].Name
				env[e.Out[i]] = v
			}
		})
	}
	out := make([]*Value, len(p.Out))
	for i, v := range p.Out {
		out[i] = env[v]
	}
	return out
}

func identifier(s string) bool {
	for i, r := range s {
		switch {
		case r == '_', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
		case r >= '0' && r <= '9' && i > 0:
		default:
			return false
		}
	}
	return s != ""
}
