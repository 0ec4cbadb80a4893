package jinja

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gomoe/gomoe/internal/quoted"
)

// fields implements Python's str.format.
func (r *run) fields(s string, args []any, named *Dict) string {
	next := 0
	return r.fieldsWithin(s, args, named, &next, 0)
}

func (r *run) fieldsWithin(s string, args []any, named *Dict, next *int, depth int) string {
	var out strings.Builder
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			break
		}
		r.write(&out, s[:i])
		c := s[i]
		s = s[i+1:]
		if s != "" && s[0] == c {
			r.write(&out, string(c))
			s = s[1:]
			continue
		}
		if c == '}' || depth > 1 {
			r.fail("format: a brace that stands alone")
		}
		stop, open := -1, 1
		for j := range len(s) {
			if s[j] == '{' {
				open++
			} else if s[j] == '}' {
				if open--; open == 0 {
					stop = j
					break
				}
			}
		}
		if stop < 0 {
			r.fail("format: a brace is not closed")
		}
		field := s[:stop]
		s = s[stop+1:]
		name, how, _ := strings.Cut(field, ":")
		if j := strings.IndexByte(name, '['); j >= 0 { // a key may contain a colon
			if k := strings.LastIndexByte(field, ']'); k > j && strings.IndexByte(field[j:k], ':') >= 0 {
				name, how = field[:k+1], strings.TrimPrefix(field[k+1:], ":")
			}
		}
		name, conversion, converted := strings.Cut(name, "!")
		v := r.field(name, args, named, next)
		switch {
		case !converted:
		case conversion == "r":
			v = r.repr(v, 0)
		case conversion == "s":
			v = r.show(v)
		case conversion == "a":
			v = asciiOnly(r.repr(v, 0))
		default:
			r.fail("format: a conversion %s, want r, s or a", quoted.Text(conversion))
		}
		r.write(&out, r.formatted(v, r.fieldsWithin(how, args, named, next, depth+1)))
	}
	r.write(&out, s)
	return out.String()
}

// field returns the value of a replacement field, such as 0.name[key].
func (r *run) field(name string, args []any, named *Dict, next *int) any {
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	first, rest := name[:end], name[end:]
	var v any
	if i, err := strconv.Atoi(first); err == nil || first == "" {
		if first == "" {
			i = *next
			*next++
		}
		if i >= len(args) {
			r.fail("format: no value %d, there are %d", i, len(args))
		}
		v = args[i]
	} else {
		x, ok := named.Get(first)
		if !ok {
			r.fail("format: no value of the name %s", quoted.Text(first))
		}
		v = x
	}
	for rest != "" {
		r.spend(1)
		if rest[0] == '.' {
			end := strings.IndexAny(rest[1:], ".[") + 1
			if end == 0 {
				end = len(rest)
			}
			v = r.attribute(v, rest[1:end])
			rest = rest[end:]
			continue
		}
		end := strings.IndexByte(rest, ']')
		if rest[0] != '[' || end < 0 {
			r.fail("format: a field %s", quoted.Text(name))
		}
		key := any(rest[1:end])
		if i, err := strconv.ParseInt(rest[1:end], 10, 64); err == nil {
			key = i
		}
		v = r.item(v, key)
		rest = rest[end+1:]
	}
	return v
}

// formatted implements Python's format of a value.
func (r *run) formatted(v any, how string) string {
	if how == "" {
		return r.show(v)
	}
	p := r.spec(how)
	r.bounded(p)
	switch {
	case isNumber(v):
		if p.fill == "" {
			p.fill = " "
		}
		if p.zero && p.align == 0 {
			p.fill, p.align = "0", '='
		}
		if p.align == 0 {
			p.align = '>'
		}
		return r.numberFormat(p, v)
	case !isText(v):
		r.fail("a format %s of %s", quoted.Text(how), r.typed(v))
	}
	if p.kind != 0 && p.kind != 's' || p.sign != 0 || p.align == '=' || p.group != "" || p.alternate {
		r.fail("a format %s of a string", quoted.Text(how))
	}
	text := r.show(v)
	if p.precision >= 0 {
		text = firstRunes(text, p.precision)
	}
	if p.fill == "" {
		p.fill = " "
		if p.zero {
			p.fill = "0"
		}
	}
	if p.align == 0 {
		p.align = '<'
	}
	return r.pad(p, "", text)
}

// spec parses Python's format specification.
func (r *run) spec(s string) spec {
	p := spec{precision: -1}
	whole := s
	if _, n := utf8.DecodeRuneInString(s); len(s) > n && strings.IndexByte("<>^=", s[n]) >= 0 {
		p.fill, p.align, s = s[:n], s[n], s[n+1:]
	} else if strings.IndexByte("<>^=", s[0]) >= 0 {
		p.align, s = s[0], s[1:]
	}
	is := func(set string) bool {
		if s == "" || strings.IndexByte(set, s[0]) < 0 {
			return false
		}
		s = s[1:]
		return true
	}
	if s != "" && is("+- ") {
		p.sign = whole[len(whole)-len(s)-1]
	}
	is("z")
	p.alternate = is("#")
	if p.zero = is("0"); p.zero && p.fill == "" {
		p.fill = "0"
		if p.align == 0 {
			p.fill = ""
		}
	}
	number := func() int {
		n := 0
		for s != "" && s[0] >= '0' && s[0] <= '9' {
			n, s = min(maxWidth+1, n*10+int(s[0]-'0')), s[1:]
		}
		return n
	}
	p.width = number()
	if s != "" && is(",_") {
		p.group = whole[len(whole)-len(s)-1 : len(whole)-len(s)]
	}
	if is(".") {
		if s == "" || s[0] < '0' || s[0] > '9' {
			r.fail("a format %s without a precision after the point", quoted.Text(whole))
		}
		p.precision = number()
	}
	if s != "" && is("bcdeEfFgGnosxX%") {
		p.kind = whole[len(whole)-len(s)-1]
	}
	if s != "" {
		r.fail("a format %s, of which %s is not understood", quoted.Text(whole), quoted.Text(s))
	}
	return p
}
