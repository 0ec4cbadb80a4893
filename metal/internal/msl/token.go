package msl

import "strings"

// kind is the kind of a token.
type kind byte

const (
	punct kind = iota
	ident
	number
	str
	end // after the last token; its space is the space at the end of the source
)

// token is a token, with the space before it: blanks, comments and preprocessor lines.
type token struct {
	space, text string
	kind        kind
}

// lex splits a source into tokens, the last having kind end. The spaces and texts of the tokens
// together are the source, except for #pragma lines: only the contraction pragmas, "#pragma clang
// fp", are kept. lex accepts any text, turning anything unknown into punctuation.
func lex(src string) []token {
	var out []token
	var space strings.Builder
	i, lineStart := 0, true
	for i < len(src) {
		if n, text := skip(src[i:], lineStart); n > 0 {
			space.WriteString(text)
			lineStart = lineStart && src[i] != '/' || strings.Contains(src[i:i+n], "\n")
			i += n
			continue
		}
		lineStart = false
		k, n := next(src[i:])
		out = append(out, token{space.String(), src[i : i+n], k})
		space.Reset()
		i += n
	}
	return append(out, token{space.String(), "", end})
}

// skip returns the length of the space at the beginning of s, and the part of its text to keep. n
// is 0 if s begins with a token.
func skip(s string, lineStart bool) (n int, keep string) {
	switch {
	case strings.IndexByte(" \t\r\n\v\f", s[0]) >= 0:
		return 1, s[:1]
	case strings.HasPrefix(s, "\\\n"):
		return 2, s[:2]
	case strings.HasPrefix(s, "//"):
		n = lineEnd(s)
		return n, s[:n]
	case strings.HasPrefix(s, "/*"):
		if e := strings.Index(s[2:], "*/"); e >= 0 {
			return e + 4, s[:e+4]
		}
		return len(s), s
	case s[0] == '#' && lineStart:
		n = lineEnd(s)
		words := strings.Fields(s[1:n])
		if len(words) > 0 && words[0] == "pragma" && !(len(words) > 2 && words[1] == "clang" && words[2] == "fp") {
			return n, strings.Repeat("\n", strings.Count(s[:n], "\n"))
		}
		return n, s[:n]
	}
	return 0, ""
}

// lineEnd returns the length of the first line of s, without its newline. Lines continued by a
// backslash count as one line.
func lineEnd(s string) int {
	for i := range len(s) {
		if s[i] == '\n' && (i == 0 || s[i-1] != '\\') {
			return i
		}
	}
	return len(s)
}

// next returns the kind and the length of the token at the start of s.
func next(s string) (kind, int) {
	switch c := s[0]; {
	case c == '"' || c == '\'':
		n := 1
		for n < len(s) && s[n] != c && s[n] != '\n' {
			if s[n] == '\\' && n+1 < len(s) {
				n++
			}
			n++
		}
		return str, min(n+1, len(s))
	case digit(c) || c == '.' && len(s) > 1 && digit(s[1]):
		n := 1
		for n < len(s) && (word(s[n]) || s[n] == '.' || s[n] == '\'' || (s[n] == '+' || s[n] == '-') && exponent(s[:n])) {
			n++
		}
		return number, n
	case word(c):
		n := 1
		for n < len(s) && word(s[n]) {
			n++
		}
		return ident, n
	}
	for _, two := range []string{"[[", "->", "::"} {
		if strings.HasPrefix(s, two) {
			return punct, 2
		}
	}
	return punct, 1
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func word(c byte) bool {
	return c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || digit(c) || c >= 0x80
}

// exponent reports whether a sign following s, the beginning of a number, belongs to the number's
// exponent.
func exponent(s string) bool {
	hex := strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X")
	switch s[len(s)-1] {
	case 'e', 'E':
		return !hex
	case 'p', 'P':
		return hex
	}
	return false
}

// join returns the text of tokens, with single blanks where the source has any space.
func join(ts []token) string {
	var b strings.Builder
	for i, t := range ts {
		if i > 0 && t.space != "" {
			b.WriteByte(' ')
		}
		b.WriteString(t.text)
	}
	return b.String()
}

// floatLiteral reports whether a number is floating-point and has no suffix.
func floatLiteral(s string) bool {
	if strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X") {
		return false
	}
	last := s[len(s)-1]
	return strings.ContainsAny(s, ".eE") && (digit(last) || last == '.')
}
