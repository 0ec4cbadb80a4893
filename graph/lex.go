package graph

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gomoe/gomoe/internal/quoted"
)

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokNewline
	tokName
	tokNumber // -1, 2.5e-07, -inf; inf and nan are names
	tokString
	tokPunct
	tokBad // text is the error message
)

type token struct {
	kind tokenKind
	text string
	line int
}

// String describes the token in an error.
func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "the end of the file"
	case tokNewline:
		return "the end of the line"
	case tokString:
		return clip(t.text)
	}
	return strconv.Quote(clip(t.text))
}

// clip shortens a long text, so that an error that quotes it is readable.
func clip(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	n := most
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// lexer cuts a text into tokens. It is not used after returning tokBad.
type lexer struct {
	src  string
	line int
}

func (l *lexer) next() token {
	l.src = strings.TrimLeft(l.src, " \t\r")
	if strings.HasPrefix(l.src, "#") {
		if end := strings.IndexByte(l.src, '\n'); end >= 0 {
			l.src = l.src[end:]
		} else {
			l.src = ""
		}
	}
	if l.src == "" {
		return token{tokEOF, "", l.line}
	}
	switch c := l.src[0]; {
	case c == '\n':
		l.line++
		t := l.take(tokNewline, 1)
		t.line--
		return t
	case strings.IndexByte("(){}[],=", c) >= 0:
		return l.take(tokPunct, 1)
	case c == '"':
		s, err := strconv.QuotedPrefix(l.src)
		if err != nil {
			return l.bad("string is not closed or has a wrong escape; it is written as in Go")
		}
		return l.take(tokString, len(s))
	case c == '-' || digit(c):
		return l.number()
	case letter(c):
		return l.take(tokName, wordLen(l.src))
	}
	r, _ := utf8.DecodeRuneInString(l.src)
	switch {
	case r == '@':
		return l.bad("character '@' is not part of any program; placements are given apart from it, and a matrix product is dot_general(x, y)")
	case strings.ContainsRune("+*/^%<>!&|", r):
		return l.bad("character %q is not part of any program; operators are primitives, such as add(x, y)", r)
	}
	return l.bad("character %q is not part of any program", r)
}

func (l *lexer) number() token {
	n := 0
	digits := func() bool {
		start := n
		for n < len(l.src) && digit(l.src[n]) {
			n++
		}
		return n > start
	}
	if l.src[0] == '-' {
		n = 1
	}
	ok := digits()
	if !ok && strings.HasPrefix(l.src, "-inf") {
		n, ok = 4, true
	} else if ok {
		if n < len(l.src) && l.src[n] == '.' {
			n++
			digits()
		}
		if n < len(l.src) && (l.src[n] == 'e' || l.src[n] == 'E') {
			n++
			if n < len(l.src) && (l.src[n] == '+' || l.src[n] == '-') {
				n++
			}
			ok = digits()
		}
	}
	if rest := wordLen(l.src[n:]); rest > 0 || !ok {
		return l.bad("%s is no number", quoted.Name(clip(l.src[:n+rest])))
	}
	return l.take(tokNumber, n)
}

func (l *lexer) take(kind tokenKind, n int) token {
	t := token{kind, l.src[:n], l.line}
	l.src = l.src[n:]
	return t
}

func (l *lexer) bad(format string, args ...any) token {
	return token{tokBad, fmt.Sprintf(format, args...), l.line}
}

func letter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

// wordLen returns the number of letters and digits that s begins with.
func wordLen(s string) int {
	n := 0
	for n < len(s) && (letter(s[n]) || digit(s[n])) {
		n++
	}
	return n
}
