package main

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"

	"github.com/gomoe/gomoe/internal/whole"
)

// generated writes text as it is generated, up to the first of some texts at which to stop.
type generated struct {
	to    io.Writer
	stops []string
	plain bool   // to is a terminal, which is not to get what it would interpret
	held  string // text that may be the beginning of one of stops
	ended bool
	err   error
}

func newOutput(to io.Writer, stops []string) *generated {
	g := &generated{to: to, stops: stops}
	if o, ok := to.(*whole.Output); ok {
		f, ok := o.To.(*os.File)
		g.plain = ok && term.IsTerminal(int(f.Fd()))
	}
	return g
}

// write writes further text and reports whether more is wanted.
func (g *generated) write(s string) bool {
	if g.ended || g.err != nil {
		return false
	}
	g.held += s
	first := -1
	for _, stop := range g.stops {
		if i := strings.Index(g.held, stop); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	if first >= 0 {
		g.ended = true
		g.print(g.held[:first])
		g.held = ""
		return false
	}
	keep := 0
	for _, stop := range g.stops {
		for n := min(len(stop)-1, len(g.held)); n > keep; n-- {
			if strings.HasSuffix(g.held, stop[:n]) {
				keep = n
				break
			}
		}
	}
	g.print(g.held[:len(g.held)-keep])
	g.held = g.held[len(g.held)-keep:]
	return g.err == nil
}

// end writes what was held back, and the end of the line.
func (g *generated) end() {
	if !g.ended {
		g.print(g.held)
	}
	g.held = ""
	g.print("\n")
}

func (g *generated) print(s string) {
	if g.err != nil || s == "" {
		return
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
}
