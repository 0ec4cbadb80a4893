package main

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"

	"github.com/gomoe/gomoe/internal/whole"
)

// generated writes text while it is being generated.
type generated struct {
	to    io.Writer
	plain bool // to is a terminal, and must not receive control sequences
	err   error
}

func newOutput(to io.Writer) *generated {
	g := &generated{to: to}
	if o, ok := to.(*whole.Output); ok {
		f, ok := o.To.(*os.File)
		g.plain = ok && term.IsTerminal(int(f.Fd()))
	}
	return g
}

// print writes further text and reports whether to continue: it returns false after an error.
func (g *generated) print(s string) bool {
	if g.err != nil || s == "" {
		return g.err == nil
	}
	if g.plain {
		s = strings.Map(func(r rune) rune {
			if r == '\n' || r == '\t' || unicode.IsPrint(r) {
				return r
			}
			return unicode.ReplacementChar
		}, s)
	}
	_, g.err = io.WriteString(g.to, s)
	return g.err == nil
}
