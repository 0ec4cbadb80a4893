package graph

import (
	"fmt"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
)

// Error is a mistake in a program, at the user's line.
type Error struct {
	Pos  Pos
	Prim string // the primitive's name, "" if the mistake is not in an equation
	Args string // the argument types as printed, placement included if known
	Err  error
}

// newError returns an Error about an equation with arguments of the types in.
func newError(pos Pos, prim Primitive, in []Type, err error) *Error {
	args := make([]string, len(in))
	for i, t := range in {
		args[i] = t.String()
	}
	return &Error{Pos: pos, Prim: prim.Name(), Args: strings.Join(args, ", "), Err: err}
}

func (e *Error) Error() string {
	if e.Prim == "" {
		return quoted.Message(fmt.Sprintf("%s: %v", e.Pos, e.Err))
	}
	return quoted.Message(fmt.Sprintf("%s: %s(%s): %v", e.Pos, e.Prim, e.Args, e.Err))
}

func (e *Error) Unwrap() error { return e.Err }

// buildError is the panic carrying an error out of model code, so that model code need
// not handle errors. Only Trace recovers it. It implements error so that a panic outside
// of any trace prints the mistake.
type buildError struct{ err error }

func (e buildError) Error() string { return e.err.Error() }

// Fail stops the running trace with an error at the line that calls Fail or, inside a
// builder that calls Helper, at the line that calls the builder. Builders use it for
// mistakes found before adding an equation.
func Fail(format string, args ...any) {
	panic(buildError{&Error{Pos: caller(nil), Err: fmt.Errorf(format, args...)}})
}

// FailAt stops the running trace with an error about the equation e. Engines and rules
// use it for mistakes in e found while building equations for it.
func FailAt(e *Eqn, err error) {
	panic(buildError{newError(e.Pos, e.Prim, e.InTypes(), err)})
}
