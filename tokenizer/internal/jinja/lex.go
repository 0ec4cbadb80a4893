package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is the kind of a token.
type kind int

const (
	textPart   kind = iota
	printBegin      // {{
	blockBegin      // {%
	tagEnd          // }} or %}
	name
	number
	text // a string
	operator
	end
)

type token struct {
	kind  kind
	text  string
	value any // of a number or a string
	line  int
}

type lexer struct {
	src  string
	at   int
	line int
	out  []token
}

// failure describes an error in a template. It is thrown by panic, and caught by Compile and Render.
type failure struct {
	line int
	text string
}

func (l *lexer) fail(text string) { panic(failure{l.line, text}) }

func (l *lexer) emit(k kind, text string, value any) {
	l.out = append(l.out, token{k, text, value, l.line})
}

// advance skips n bytes and counts lines.
func (l *lexer) advance(n int) string {
	s := l.src[l.at : l.at+n]
	l.line += strings.Count(s, "\n")
	l.at += n
	return s
}

// lex splits a template into tokens. White space around tags is trimmed according to Jinja's options trim_blocks
// and lstrip_blocks, which transformers sets.
func lex(src string) []token {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	l := &lexer{src: strings.TrimSuffix(src, "\n"), line: 1}
	for l.at < len(l.src) {
		i := l.open()
		rest := l.src[l.at+i:]
		if rest == "" {
			l.emit(textPart, l.src[l.at:], nil)
			break
		}
		body := l.src[l.at : l.at+i]
		sign := byte(0)
		if len(rest) > 2 {
			sign = rest[2]
		}
		switch {
		case sign == '-':
			body = strings.TrimRightFunc(body, unicode.IsSpace)
		case sign != '+' && rest[1] != '{': // indentation of a tag is removed
			cut := strings.TrimRight(body, " \t")
			if cut == "" && l.fresh() || strings.HasSuffix(cut, "\n") {
				body = cut
			}
		}
		if body != "" {
			l.emit(textPart, body, nil)
		}
		l.advance(i)
		n := 2
		if sign == '-' || sign == '+' && rest[1] != '{' {
			n = 3
		}
		switch rest[1] {
		case '#':
			stop := strings.Index(rest, "#}")
			if stop < 0 {
				l.fail("a comment is not closed")
			}
			l.advance(stop)
			l.close(l.src[l.at-1], 2, true)
		case '{':
			l.emit(printBegin, "", nil)
			l.advance(n)
			l.tag("}}")
		case '%':
			l.advance(n)
			if l.raw() {
				continue
			}
			l.emit(blockBegin, "", nil)
			l.tag("%}")
		}
	}
	l.emit(end, "", nil)
	return l.out
}

// open returns the distance to the next tag, or to the end.
func (l *lexer) open() int {
	rest := l.src[l.at:]
	for i := 0; i+1 < len(rest); i++ {
		if rest[i] == '{' && (rest[i+1] == '{' || rest[i+1] == '%' || rest[i+1] == '#') {
			return i
		}
	}
	return len(rest)
}

// fresh reports whether the text here begins a line.
func (l *lexer) fresh() bool { return l.at == 0 || l.src[l.at-1] == '\n' }

// close skips the n bytes ending a tag, and the white space to trim after it.
func (l *lexer) close(sign byte, n int, trim bool) {
	l.advance(n)
	rest := l.src[l.at:]
	switch {
	case sign == '-':
		l.advance(len(rest) - len(strings.TrimLeftFunc(rest, unicode.IsSpace)))
	case sign != '+' && trim && strings.HasPrefix(rest, "\n"):
		l.advance(1)
	}
}

// raw consumes {% raw %} up to its end as text.
func (l *lexer) raw() bool {
	rest := strings.TrimLeftFunc(l.src[l.at:], unicode.IsSpace)
	if !strings.HasPrefix(rest, "raw") {
		return false
	}
	rest = strings.TrimLeftFunc(rest[3:], unicode.IsSpace)
	sign := byte(0)
	if strings.HasPrefix(rest, "-%}") {
		sign = '-'
		rest = rest[1:]
	}
	if !strings.HasPrefix(rest, "%}") {
		return false
	}
	l.advance(len(l.src) - l.at - len(rest))
	l.close(sign, 2, false)
	rest = l.src[l.at:]
	for i := range rest {
		if !strings.HasPrefix(rest[i:], "{%") {
			continue
		}
		inner, dash := strings.CutPrefix(rest[i+2:], "-")
		inner = strings.TrimLeftFunc(inner, unicode.IsSpace)
		after, ok := strings.CutPrefix(inner, "endraw")
		if !ok {
			continue
		}
		after = strings.TrimLeftFunc(after, unicode.IsSpace)
		after, dashAfter := strings.CutPrefix(after, "-")
		if !strings.HasPrefix(after, "%}") {
			continue
		}
		body := rest[:i]
		if dash {
			body = strings.TrimRightFunc(body, unicode.IsSpace)
		} else if cut := strings.TrimRight(body, " \t"); strings.HasSuffix(cut, "\n") {
			body = cut
		}
		l.emit(textPart, body, nil)
		l.advance(len(rest) - len(after))
		sign = 0
		if dashAfter {
			sign = '-'
		}
		l.close(sign, 2, true)
		return true
	}
	l.fail("raw without endraw")
	return true
}

// tag splits an expression or statement up to its end.
func (l *lexer) tag(stop string) {
	depth := 0
	for {
		for l.at < len(l.src) && strings.IndexByte(" \t\n", l.src[l.at]) >= 0 {
			l.advance(1)
		}
		rest := l.src[l.at:]
		if rest == "" {
			l.fail("a tag is not closed, want " + stop)
		}
		if depth == 0 {
			inner, sign := rest, byte(0)
			if rest[0] == '-' || rest[0] == '+' {
				inner, sign = rest[1:], rest[0]
			}
			if strings.HasPrefix(inner, stop) {
				l.emit(tagEnd, stop, nil)
				l.close(sign, len(rest)-len(inner)+2, stop == "%}")
				return
			}
		}
		r, n := utf8.DecodeRuneInString(rest)
		switch {
		case r == '"' || r == '\'':
			l.quoted(rest)
		case r >= '0' && r <= '9':
			l.number(rest)
		case r == '_' || unicode.IsLetter(r):
			for n < len(rest) {
				r, m := utf8.DecodeRuneInString(rest[n:])
				if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
					break
				}
				n += m
			}
			l.emit(name, rest[:n], nil)
			l.advance(n)
		default:
			op := rest[:n]
			for _, two := range []string{"//", "**", "==", "!=", "<=", ">="} {
				if strings.HasPrefix(rest, two) {
					op = two
				}
			}
			if !strings.Contains("// ** == != <= >= + - * / % ~ | . , : ( ) [ ] { } < > =", op) {
				l.fail("an unknown character " + strconv.Quote(op))
			}
			if strings.Contains("([{", op) {
				depth++
			} else if strings.Contains(")]}", op) {
				depth--
			}
			l.emit(operator, op, nil)
			l.advance(len(op))
		}
	}
}

// quoted parses a string with Python's escapes.
func (l *lexer) quoted(rest string) {
	var out strings.Builder
	for i := 1; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == rest[0]:
			l.emit(text, rest[:i+1], out.String())
			l.advance(i + 1)
			return
		case c == '\\' && i+1 < len(rest):
			i++
			hex := map[byte]int{'x': 2, 'u': 4, 'U': 8}[rest[i]]
			at := strings.IndexByte(`nrtabfv\'"`, rest[i])
			switch {
			case hex > 0 && i+hex < len(rest):
				v, err := strconv.ParseUint(rest[i+1:i+1+hex], 16, 32)
				if err != nil {
					l.fail("an escape without hexadecimal digits in a string")
				}
				out.WriteRune(rune(v))
				i += hex
			case at >= 0:
				out.WriteByte("\n\r\t\a\b\f\v\\'\""[at])
			case rest[i] >= '0' && rest[i] <= '7':
				n := 1
				for n < 3 && i+n < len(rest) && rest[i+n] >= '0' && rest[i+n] <= '7' {
					n++
				}
				v, _ := strconv.ParseUint(rest[i:i+n], 8, 32)
				out.WriteRune(rune(v))
				i += n - 1
			case rest[i] == '\n':
			default:
				out.WriteByte('\\')
				out.WriteByte(rest[i])
			}
		default:
			out.WriteByte(c)
		}
	}
	l.fail("a string is not closed")
}

// digits returns the end of the digits starting at a byte. An underscore may separate two digits.
func digits(s string, at int, set string) int {
	for at < len(s) {
		next := at
		if s[next] == '_' {
			next++
		}
		if next >= len(s) || strings.IndexByte(set, s[next]) < 0 {
			break
		}
		at = next + 1
	}
	return at
}

// number parses an integer or a float. A number after a dot is an integer attribute, such as the two in l.0.1.
func (l *lexer) number(rest string) {
	const decimal = "0123456789"
	attribute := len(l.out) > 0 && l.out[len(l.out)-1].text == "." && l.out[len(l.out)-1].kind == operator
	n := 0
	if len(rest) > 1 && rest[0] == '0' {
		set := map[byte]string{'b': "01", 'o': "01234567", 'x': decimal + "abcdefABCDEF"}[rest[1]|0x20]
		if end := digits(rest, 2, set); set != "" && end > 2 {
			n = end
		}
	}
	point := false
	if n == 0 {
		n = digits(rest, 0, decimal)
		if !attribute && n+1 < len(rest) && rest[n] == '.' && strings.IndexByte(decimal, rest[n+1]) >= 0 {
			n, point = digits(rest, n+1, decimal), true
		}
		if e := n; !attribute && e < len(rest) && rest[e]|0x20 == 'e' {
			if e++; e < len(rest) && (rest[e] == '-' || rest[e] == '+') {
				e++
			}
			if e < len(rest) && strings.IndexByte(decimal, rest[e]) >= 0 {
				n, point = digits(rest, e, decimal), true
			}
		}
	}
	text := strings.ReplaceAll(rest[:n], "_", "")
	var value any
	var ok bool
	if point {
		f, err := strconv.ParseFloat(text, 64)
		value, ok = f, err == nil || math.IsInf(f, 0)
	} else if len(text) <= maxDigits && (text[0] != '0' || len(text) == strings.Count(text, "0") || strings.ContainsAny(text[1:2], "bBoOxX")) {
		var i *big.Int
		if i, ok = new(big.Int).SetString(text, 0); ok {
			value = small(i)
		}
	}
	if !ok {
		l.fail("a number that cannot be read")
	}
	l.emit(number, rest[:n], value)
	l.advance(n)
}
