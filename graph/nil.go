package graph

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
)

// nilArgument returns an error if the running panic r is the use of a nil pointer inside
// a builder, which happens when a builder reads the type of a nil *Value. The error is at
// the line that calls the builder. It returns nil for any other panic. The recovering
// function calls nilArgument.
func nilArgument(r any, scope string) error {
	var use runtime.Error
	if err, ok := r.(error); !ok || !errors.As(err, &use) || !strings.Contains(use.Error(), "nil pointer dereference") {
		return nil
	}
	here := packageOf(reflect.TypeFor[Tracer]())
	primitives := strings.TrimSuffix(here, "graph") + "primitives"
	marked := helpers.Load()
	pcs := make([]uintptr, 256)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	inside, builder := false, ""
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		switch test := strings.HasSuffix(f.File, "_test.go"); {
		case f.Function == "runtime.sigpanic":
			inside = true
		case !inside:
		case !test && (within(f.Function, here) || within(f.Function, primitives)), marked != nil && marked.functions[f.Function]:
			builder = f.Function[strings.LastIndexByte(f.Function, '/')+1:]
		case builder == "":
			return nil // the model itself uses a nil pointer
		default:
			return &Error{Pos: Pos{File: f.File, Line: f.Line, Scope: scope}, Err: fmt.Errorf("%s uses a nil pointer: an argument is nil, want a value of this trace", builder)}
		}
	}
	return nil
}
