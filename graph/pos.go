package graph

import (
	"maps"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
)

// Pos is a place in the user's source, and the part of the model being traced there. The
// zero Pos is unknown.
type Pos struct {
	File string
	Line int
	// Scope is the part of the model, such as layers.3.moe, "" if there is none; see
	// Tracer.Scope.
	Scope string
}

// String prints the file's base name, the line and the scope: moe.go:24, or
// moe.go:24 (layers.3.moe).
func (p Pos) String() string {
	s := "-"
	if p.File != "" {
		s = filepath.Base(p.File) + ":" + strconv.Itoa(p.Line)
	}
	if p.Scope != "" {
		s += " (" + p.Scope + ")"
	}
	return s
}

// Helper marks the function calling it as a builder: the equations that the function
// adds, and the mistakes that it reports with Fail, carry the line of the function's
// caller. It is like testing.T.Helper for tests. Call it first:
//
//	func Linear(x, w, b *graph.Value) *graph.Value {
//		graph.Helper()
//		y := primitives.MatMul(x, w)
//		return primitives.Add(y, primitives.BroadcastTo(b, y.Type.Shape...))
//	}
//
// A function applying a primitive of its own package, or a primitive of Structural, is a
// builder without calling Helper, unless Trace called it. A closure is a separate
// function: a closure adding equations inside a builder calls Helper itself.
func Helper() {
	var pc [1]uintptr
	if runtime.Callers(2, pc[:]) == 0 {
		return
	}
	for {
		old := helpers.Load()
		if old != nil && old.at[pc[0]] {
			return
		}
		m := &marks{map[uintptr]bool{}, map[string]bool{}}
		if old != nil {
			m = &marks{maps.Clone(old.at), maps.Clone(old.functions)}
		}
		f, _ := runtime.CallersFrames(pc[:]).Next()
		m.at[pc[0]], m.functions[f.Function] = true, true
		if helpers.CompareAndSwap(old, m) {
			return
		}
	}
}

// marks are the places in the code that have called Helper, and the names of the
// functions containing these places.
type marks struct {
	at        map[uintptr]bool
	functions map[string]bool
}

// helpers only grows. It holds at most one place for each call of Helper in the source.
var helpers atomic.Pointer[marks]

// caller returns the line of the innermost function outside this package that is
// not a builder. p is the primitive that is applied, nil if there is none.
func caller(p Primitive) Pos {
	here, home := packageOf(reflect.TypeFor[Tracer]()), ""
	if p != nil {
		home = packageOf(reflect.TypeOf(p))
	}
	marked := helpers.Load()
	var last, builder Pos
	applies := true // the next frame is the function applying p
	var pcs [8]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		if n == 0 {
			return last
		}
		frames := runtime.CallersFrames(pcs[:n])
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if within(f.Function, here) && !strings.HasSuffix(f.File, "_test.go") {
				if builder != (Pos{}) {
					return builder // called by Trace: it is a model
				}
				continue
			}
			last, builder = Pos{File: f.File, Line: f.Line}, Pos{}
			helper := marked != nil && marked.functions[f.Function]
			switch {
			case helper:
			case applies && (home == here || within(f.Function, home)):
				builder = last
			default:
				return last
			}
			applies = false
		}
	}
}

// packageOf returns the package of a type, spelled as in the names of functions.
func packageOf(t reflect.Type) string {
	pkg := t.PkgPath()
	slash := strings.LastIndexByte(pkg, '/')
	if strings.IndexByte(pkg[slash+1:], '.') < 0 {
		return pkg
	}
	return pkg[:slash+1] + strings.ReplaceAll(pkg[slash+1:], ".", "%2e")
}

// within reports whether a function, by its name, is in the package.
func within(function, pkg string) bool {
	return pkg != "" && strings.HasPrefix(function, pkg) && strings.HasPrefix(function[len(pkg):], ".")
}
