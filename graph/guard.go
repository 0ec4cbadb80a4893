package graph

import (
	"fmt"
	"runtime"
	"strings"
)

// Guard calls fn, which calls a rule of a primitive, and returns its error. A panic of
// the rule becomes an error naming the rule and the line of the panic; the caller adds
// the primitive and the user's line. A mistake reported by a builder stops the trace as
// usual.
func Guard(rule string, fn func() error) (err error) {
	defer func() {
		switch r := recover(); r.(type) {
		case nil:
		case buildError:
			panic(r)
		default:
			err = fmt.Errorf("the primitive's %s panics at %s: %v", rule, panicked(), r)
		}
	}()
	return fn()
}

// panicked returns the line of the running panic. The function that recovers calls it.
func panicked() Pos {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	inside := false
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		switch system := strings.HasPrefix(f.Function, "runtime."); {
		case system:
			inside = true
		case inside:
			return Pos{File: f.File, Line: f.Line}
		}
	}
	return Pos{}
}
