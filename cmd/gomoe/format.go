package main

import (
	"fmt"
	"strings"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// format returns the canonical text of a file of programs. A statement takes one line both in the
// grammar and in the canonical text, so comments are carried over line by line: a comment on a line
// of its own stays above the next statement, a trailing comment stays with its statement. Scopes
// keep their places, including scopes that change nothing. Several blank lines inside a program
// become one.
func format(name, src string) (string, error) {
	progs, err := graph.ParseAll(name, src, primitives.All()...)
	if err != nil {
		return "", err
	}
	var canonical []string // lines of all programs
	for _, p := range progs {
		text := p.String()
		// Programs called by p precede it; they are printed separately.
		text = text[strings.LastIndex("\n"+text, "\nprogram "):]
		for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			if _, ok := scopeOf(strings.TrimSpace(line)); !ok {
				canonical = append(canonical, line)
			}
		}
	}

	var out []string
	next, blank := 0, false
	depth := 0  // number of open programs: one, or more in the bodies of loops
	above := "" // the statement or comment above, as written
	for _, line := range strings.Split(src, "\n") {
		code, comment := split(line)
		if code == "" && comment == "" {
			blank = true
			continue
		}
		switch {
		case above == "}" && depth == 0: // blank lines separate programs, and comments between programs
			blank = true
		case above == "", strings.HasSuffix(above, "{"), code == "}":
			blank = false
		}
		if blank {
			out = append(out, "")
		}
		blank, above = false, code+comment
		if code == "" {
			out = append(out, strings.Repeat("\t", depth)+comment)
			continue
		}
		if name, ok := scopeOf(code); ok {
			above = code
			out = append(out, strings.TrimRight(strings.Repeat("\t", depth)+strings.TrimRight("scope "+name, " ")+" "+comment, " "))
			continue
		}
		if next == len(canonical) {
			return "", fmt.Errorf("%s: internal error, a bug in gomoe: more statements than the canonical text has", name)
		}
		switch {
		case code == "}":
			depth--
		case strings.HasSuffix(code, "{"):
			depth++
		}
		above = code
		out = append(out, strings.TrimRight(canonical[next]+" "+comment, " "))
		next++
	}
	if next < len(canonical) {
		return "", fmt.Errorf("%s: internal error, a bug in gomoe: fewer statements than the canonical text has", name)
	}
	return strings.Join(out, "\n") + "\n", nil
}

// scopeOf returns the quoted name of the scope opened by a line, "" if the line closes the scope.
// ok is false if the line is another statement.
func scopeOf(code string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(code, "scope")
	rest = strings.TrimSpace(rest)
	return rest, ok && (rest == "" || rest[0] == '"')
}

// split returns the statement and the comment of a line; either may be "".
func split(line string) (code, comment string) {
	line = strings.TrimSpace(line)
	quoted := false
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\' && quoted:
			i++
		case line[i] == '"':
			quoted = !quoted
		case line[i] == '#' && !quoted:
			return strings.TrimSpace(line[:i]), line[i:]
		}
	}
	return line, ""
}
