package msl

import (
	"fmt"
	"strconv"
	"strings"
)

// Error reports a construct not allowed in a source.
type Error struct {
	File string
	Line int
	Text string
}

// Error returns the error in the form used by compilers: file:line: error: text.
func (e *Error) Error() string { return fmt.Sprintf("%s:%d: error: %s", e.File, e.Line, e.Text) }

// marker parses a preprocessor line giving the origin of the next line:
// # 12 "a.metal" or #line 12 "a.metal". file may be empty. ok is false for other lines.
func marker(s string) (line int, file string, ok bool) {
	s, ok = strings.CutPrefix(strings.TrimLeft(s, " \t"), "#")
	if !ok {
		return 0, "", false
	}
	s = strings.TrimPrefix(strings.TrimLeft(s, " \t"), "line")
	number, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
	line, err := strconv.Atoi(number)
	if err != nil {
		return 0, "", false
	}
	if _, rest, ok = strings.Cut(rest, `"`); ok {
		file, _, _ = strings.Cut(rest, `"`)
	}
	return line, file, true
}

// position returns the file and line of token i according to the markers before it.
func position(ts []token, i int) (file string, line int) {
	file, line = "source", 1
	for j := 0; j <= i && j < len(ts); j++ {
		for k, s := range strings.SplitAfter(ts[j].space, "\n") {
			if n, name, ok := marker(s); ok && (k > 0 || j == 0) {
				line = n - 1
				if name != "" {
					file = name
				}
			}
			line += strings.Count(s, "\n")
		}
		if j < i {
			line += strings.Count(ts[j].text, "\n")
		}
	}
	return file, line
}

// fail records an error at token i, keeping only the first error.
func (r *rewriter) fail(i int, format string, a ...any) {
	if r.err == nil {
		file, line := position(r.ts, i)
		r.err = &Error{file, line, fmt.Sprintf(format, a...)}
	}
}
