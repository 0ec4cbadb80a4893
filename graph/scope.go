package graph

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/gomoe/gomoe/internal/quoted"
)

// Scope begins a scope and returns the function ending it. Equations carry the scopes
// that they are added in, joined by dots; errors, plans, traces and reports print them
// next to the line. The name is formatted as by fmt.Sprintf. Scopes change no result.
// Begin one per part of the model, so that the same line of a helper that several parts
// call can be told apart:
//
//	func Layer(t *graph.Tracer, l int, x *graph.Value) *graph.Value {
//		defer t.Scope("layers.%d", l)()
//		…
//
// A name that is empty or holds characters that cannot be printed stops the trace.
func (t *Tracer) Scope(format string, args ...any) (end func()) {
	name := fmt.Sprintf(format, args...)
	if err := checkScope(name); err != nil {
		panic(buildError{&Error{Pos: t.here(nil), Err: err}})
	}
	outer, scope := t.scope, joinScopes(t.scope, name)
	t.scope = scope
	begun, pos := t.begun, t.here(nil)
	t.begun = &pos
	return func() {
		t.scope, t.begun = outer, begun
		// Fail knows no tracer, so its error gets the scope here.
		switch r := recover().(type) {
		case nil:
		case buildError:
			var e *Error
			if errors.As(r.err, &e) && e == r.err && e.Pos.Scope == "" {
				e.Pos.Scope = scope
			}
			panic(r)
		default:
			if t.failed == "" {
				t.failed = scope
			}
			panic(r)
		}
	}
}

// here returns the current position in the user's code. p is the primitive being applied,
// nil if there is none.
func (t *Tracer) here(p Primitive) Pos {
	if t.pos != nil {
		return *t.pos
	}
	pos := caller(p)
	for o := t; o != nil && pos.Scope == ""; o = o.outer { // users hold the trace around a body, not the body's
		pos.Scope = o.scope
	}
	return pos
}

// inScope returns the scope of the equations that are added now.
func (t *Tracer) inScope() string {
	if t.pos != nil {
		return t.pos.Scope
	}
	return t.scope
}

func joinScopes(outer, inner string) string {
	if outer == "" || inner == "" {
		return outer + inner
	}
	return outer + "." + inner
}

func checkScope(name string) error {
	if name == "" {
		return errors.New("the name of a scope is empty; leave the scope out")
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("scope %s: want characters that can be printed", quoted.Name(name))
	}
	return nil
}
