package graph

import (
	"fmt"
	"strings"
)

// Error is a mistake in a program, at the user's line.
type Error struct {
	Pos  Pos
	Prim string // the primitive's name, "" where no equation is concerned
	Args string // the argument types as printed, placement included if known
	Err  error
}

// newError returns an Error about an equation with arguments of these types.
func newError(pos Pos, prim Primitive, in []Type, err error) *Error {
	args := make([]string, len(in))
	for i, t := range in {
		args[i] = t.String()
	}
	return &Error{Pos: pos, Prim: prim.Name(), Args: strings.Join(args, ", "), Err: err}
}

func (e *Error) Error() string {
	if e.Prim == "" {
		return fmt.Sprintf("%s: %v", e.Pos, e.Err)
	}
	return fmt.Sprintf("%s: %s(%s): %v", e.Pos, e.Prim, e.Args, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// buildError carries an error out of model code. Only Trace recovers it, so
// that model code stays arithmetic. It is an error so that a panic outside of
// any trace prints what is wrong.
type buildError struct{ err error }

func (e buildError) Error() string { return e.err.Error() }

// Fail stops the trace that runs with an error at the line that it is called
// from or, in builders that call Helper, at their caller's. It is for builders
// that find a mistake before there is an equation to blame.
func Fail(format string, args ...any) {
	panic(buildError{&Error{Pos: caller(nil), Err: fmt.Errorf(format, args...)}})
}

// FailAt stops the trace that runs with an error about the equation e. It is
// for engines and rules that find e at fault while they build on its behalf.
func FailAt(e *Eqn, err error) {
	panic(buildError{newError(e.Pos, e.Prim, e.InTypes(), err)})
}
