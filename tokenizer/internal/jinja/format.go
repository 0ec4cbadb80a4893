package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gomoe/gomoe/internal/quoted"
)

// spec is a format specification of Python's format and of its operator %.
type spec struct {
	fill      string
	align     byte // < > ^ =, 0 for the default
	sign      byte // + - or space
	alternate bool
	zero      bool
	width     int
	group     string // separator between groups of digits
	precision int    // -1: none
	kind      byte   // 0: none
}

// maxWidth bounds widths and precisions.
const maxWidth = 1 << 16

func (r *run) bounded(p spec) {
	if p.width > maxWidth || p.precision > maxWidth {
		r.fail("a format with a width or precision of more than %d", maxWidth)
	}
}

// format implements the operator % of strings.
func (r *run) format(s string, v any) string {
	args, single := []any{v}, true
	if l, ok := v.(*list); ok && l.tuple {
		args, single = l.items, false
	}
	dict, _ := v.(*Dict)
	used := 0
	take := func() any {
		if used >= len(args) {
			r.fail("a format with too few values")
		}
		used++
		return args[used-1]
	}
	var out strings.Builder
	for {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			break
		}
		r.write(&out, s[:i])
		s = s[i+1:]
		p := spec{precision: -1, sign: '-'}
		var value any
		named := false
		if strings.HasPrefix(s, "(") {
			stop := strings.IndexByte(s, ')')
			if stop < 0 || dict == nil {
				r.fail("a format with a name, want a dictionary and a closing parenthesis")
			}
			x, ok := dict.Get(s[1:stop])
			if !ok {
				r.fail("a format with the name %s, which the dictionary lacks", quoted.Text(s[1:stop]))
			}
			value, named, s = x, true, s[stop+1:]
			used = len(args)
		}
		for s != "" && strings.IndexByte("-+ #0", s[0]) >= 0 {
			switch s[0] {
			case '-':
				p.align = '<'
			case '#':
				p.alternate = true
			case '0':
				p.zero = true
			case '+':
				p.sign = '+'
			case ' ':
				if p.sign != '+' {
					p.sign = ' '
				}
			}
			s = s[1:]
		}
		size := func() int {
			if strings.HasPrefix(s, "*") {
				s = s[1:]
				n, ok := index(take())
				if !ok {
					r.fail("a format with *, want an integer")
				}
				return n
			}
			n := 0
			for s != "" && s[0] >= '0' && s[0] <= '9' {
				n, s = min(maxWidth+1, n*10+int(s[0]-'0')), s[1:]
			}
			return n
		}
		if p.width = size(); p.width < 0 {
			p.align, p.width = '<', -p.width
		}
		if strings.HasPrefix(s, ".") {
			s = s[1:]
			p.precision = max(0, size())
		}
		s = strings.TrimLeft(s, "hlL")
		if s == "" {
			r.fail("a format that ends after %%")
		}
		c := s[0]
		s = s[1:]
		if c == '%' {
			r.write(&out, "%")
			continue
		}
		if strings.IndexByte("sradiuoxXeEfFgGc", c) < 0 {
			r.fail("a format with %%%c, want one of s r a d i u o x X e E f F g G c and %%", c)
		}
		if !named {
			value = take()
		}
		r.write(&out, r.printf(p, c, value))
	}
	if used < len(args) && dict == nil && !(single && isList(v)) {
		r.fail("a format with too many values")
	}
	r.write(&out, s)
	return out.String()
}

func isList(v any) bool {
	l, ok := v.(*list)
	return ok && !l.tuple
}

// printf formats one value for the operator %.
func (r *run) printf(p spec, c byte, v any) string {
	r.bounded(p)
	switch c {
	case 's', 'r', 'a', 'c':
		text := ""
		switch n, isNumber := index(v); {
		case c == 's':
			text = r.show(v)
		case c == 'r':
			text = r.repr(v, 0)
		case c == 'a':
			text = asciiOnly(r.repr(v, 0))
		case isNumber:
			text = string(rune(n))
		default:
			if text = r.str(v); utf8.RuneCountInString(text) != 1 {
				r.fail("a format with %%c, want one character")
			}
		}
		if p.precision >= 0 && c != 'c' {
			text = firstRunes(text, p.precision)
		}
		if p.align == 0 {
			p.align = '>'
		}
		p.fill = " "
		return r.pad(p, "", text)
	case 'd', 'i', 'u':
		if f, ok := v.(float64); ok {
			v = r.toInteger(f)
		}
		c = 'd'
	}
	p.kind = c
	switch {
	case p.align != 0:
		p.fill = " "
	case p.zero:
		p.fill, p.align = "0", '='
	default:
		p.fill, p.align = " ", '>'
	}
	if strings.IndexByte("doxX", c) >= 0 {
		if _, ok := integer(v); !ok {
			r.fail("a format with %%%c of %s, want a number", c, r.typed(v))
		}
		digits := p.precision
		p.precision = -1
		if digits >= 0 {
			return r.integerDigits(p, v, digits)
		}
	} else if !isNumber(v) {
		r.fail("a format with %%%c of %s, want a number", c, r.typed(v))
	}
	return r.numberFormat(p, v)
}

// toInteger truncates a float.
func (r *run) toInteger(f float64) any {
	i, ok := whole(math.Trunc(f))
	if !ok {
		r.fail("%s has no integer", float(f))
	}
	return i
}

func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// asciiOnly escapes characters beyond ASCII.
func asciiOnly(s string) string {
	var out strings.Builder
	for _, c := range s {
		if c < 0x80 {
			out.WriteRune(c)
		} else {
			q := quote(string(c), true)
			out.WriteString(q[1 : len(q)-1])
		}
	}
	return out.String()
}

// pad pads a text to a width. With alignment =, the fill goes between sign and text.
func (r *run) pad(p spec, sign, text string) string {
	missing := p.width - utf8.RuneCountInString(sign) - utf8.RuneCountInString(text)
	if missing <= 0 {
		return sign + text
	}
	switch p.align {
	case '<':
		return r.made(sign + text + r.repeat(p.fill, missing))
	case '^':
		return r.made(r.repeat(p.fill, missing/2) + sign + text + r.repeat(p.fill, missing-missing/2))
	case '=':
		return r.made(sign + r.repeat(p.fill, missing) + text)
	}
	return r.made(r.repeat(p.fill, missing) + sign + text)
}

// grouped separates digits into groups of n.
func grouped(digits, sep string, n int) string {
	if sep == "" {
		return digits
	}
	var out strings.Builder
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%n == 0 {
			out.WriteString(sep)
		}
		out.WriteRune(c)
	}
	return out.String()
}

func (r *run) integerDigits(p spec, v any, least int) string {
	i, _ := integer(v)
	base := map[byte]int{'b': 2, 'o': 8, 'x': 16, 'X': 16}[p.kind]
	n, prefix := 4, ""
	if base == 0 {
		base, n = 10, 3
		r.digits(i)
	} else if p.alternate {
		prefix = "0" + string(p.kind)
	}
	r.spend(i.BitLen() / 16)
	digits := strings.TrimPrefix(i.Text(base), "-")
	if p.kind == 'X' {
		digits = strings.ToUpper(digits)
	}
	if len(digits) < least {
		digits = strings.Repeat("0", least-len(digits)) + digits
	}
	sign := ""
	switch {
	case i.Sign() < 0:
		sign = "-"
	case p.sign == '+' || p.sign == ' ':
		sign = string(p.sign)
	}
	return r.zeros(p, sign+prefix, grouped(digits, p.group, n), n)
}

// zeros pads a number. Zeros between the sign and the digits are grouped like the digits.
func (r *run) zeros(p spec, sign, text string, n int) string {
	if p.group != "" && p.fill == "0" && p.align == '=' {
		digits, rest := text, ""
		if i := strings.IndexAny(text, ".e%"); i >= 0 {
			digits, rest = text[:i], text[i:]
		}
		plain := strings.ReplaceAll(digits, p.group, "")
		for len(sign)+len(digits)+len(rest) < p.width {
			plain = "0" + plain
			digits = grouped(plain, p.group, n)
		}
		return sign + digits + rest
	}
	return r.pad(p, sign, text)
}

// numberFormat formats a number.
func (r *run) numberFormat(p spec, v any) string {
	_, isInteger := integer(v)
	switch p.kind {
	case 'c':
		n, ok := index(v)
		if !ok {
			r.fail("a format with c of %s, want an integer", r.typed(v))
		}
		if p.align == '>' && p.sign == 0 {
			p.align = '<'
		}
		return r.pad(p, "", string(rune(n)))
	case 'b', 'd', 'o', 'x', 'X', 'n', 0:
		if isInteger && p.precision < 0 {
			return r.integerDigits(p, v, 0)
		}
		if p.kind != 0 && p.kind != 'n' || isInteger {
			r.fail("a format with %c of %s, want an integer", max(p.kind, 'd'), r.typed(v))
		}
	}
	f, ok := numeric(v)
	if !ok {
		r.fail("a format of %s, want a number", r.typed(v))
	}
	sign := ""
	switch {
	case math.Signbit(f) && !math.IsNaN(f):
		sign = "-"
	case p.sign == '+' || p.sign == ' ':
		sign = string(p.sign)
	}
	text := floatFormat(math.Abs(f), p)
	digits, rest := text, ""
	if i := strings.IndexAny(text, ".e%"); i >= 0 {
		digits, rest = text[:i], text[i:]
	}
	return r.zeros(p, sign, grouped(digits, p.group, 3)+rest, 3)
}

// floatFormat formats a non-negative float.
func floatFormat(f float64, p spec) string {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		s := float(f)
		if p.kind >= 'A' && p.kind <= 'Z' {
			s = strings.ToUpper(s)
		}
		if p.kind == '%' {
			s += "%"
		}
		return s
	}
	precision := p.precision
	if precision < 0 {
		precision = 6
	}
	switch p.kind {
	case 'f', 'F':
		return strconv.FormatFloat(f, 'f', precision, 64)
	case '%':
		return strconv.FormatFloat(f*100, 'f', precision, 64) + "%"
	case 'e', 'E':
		return strconv.FormatFloat(f, p.kind, precision, 64)
	case 0:
		if p.precision < 0 {
			return float(f)
		}
	}
	// g: as many digits as the precision, without trailing zeros.
	precision = max(1, precision)
	s := strconv.FormatFloat(f, 'e', precision-1, 64)
	at := strings.IndexByte(s, 'e')
	exponent, _ := strconv.Atoi(s[at+1:])
	most := precision
	if p.kind == 0 { // like g, but with a digit after the point
		most--
	}
	if exponent >= -4 && exponent < most {
		s = strconv.FormatFloat(f, 'f', precision-1-exponent, 64)
		if strings.Contains(s, ".") && !p.alternate {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
		if p.kind == 0 && !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	digits := s[:at]
	if strings.Contains(digits, ".") && !p.alternate {
		digits = strings.TrimRight(strings.TrimRight(digits, "0"), ".")
	}
	s = digits + s[at:]
	if p.kind == 'G' {
		s = strings.ToUpper(s)
	}
	return s
}
