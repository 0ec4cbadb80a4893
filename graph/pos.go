package graph

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Pos is a place in the user's source. The zero Pos is unknown.
type Pos struct {
	File string
	Line int
}

// String prints the file's base name and the line: moe.go:24.
func (p Pos) String() string {
	if p.File == "" {
		return "-"
	}
	return filepath.Base(p.File) + ":" + strconv.Itoa(p.Line)
}

const module = "github.com/gomoe/gomoe/"

// library reports whether a frame is the module's own building code, which is
// never the line that a user wants to see. Tests of these packages are users.
func library(f runtime.Frame) bool {
	rest, ok := strings.CutPrefix(f.Function, module)
	if !ok || strings.HasSuffix(f.File, "_test.go") {
		return false
	}
	for _, pkg := range [...]string{"graph.", "primitives.", "vjp.", "nn.", "internal/testing/toy."} {
		if strings.HasPrefix(rest, pkg) {
			return true
		}
	}
	return false
}

// caller returns the innermost frame outside the library.
func caller() Pos {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if !library(f) {
			return Pos{f.File, f.Line}
		}
		if !more {
			return Pos{}
		}
	}
}
