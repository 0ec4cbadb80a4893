package jinja

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ofString returns a method of a string, or nil.
func ofString(s, name string) any {
	text := func(f func(r *run, args []any, named *Dict) any) any {
		return callable(func(r *run, args []any, named *Dict) any {
			r.spend(len(s) / 16)
			return f(r, args, named)
		})
	}
	made := func(f func(string) string) any {
		return text(func(r *run, _ []any, _ *Dict) any { return r.made(f(s)) })
	}
	holds := func(v bool) any { return text(func(*run, []any, *Dict) any { return v }) }
	switch name {
	case "strip", "lstrip", "rstrip":
		return text(func(r *run, args []any, _ *Dict) any {
			var chars any
			if len(args) > 0 {
				chars = args[0]
			}
			return r.strip(s, chars, name != "rstrip", name != "lstrip")
		})
	case "startswith", "endswith":
		has := strings.HasPrefix
		if name == "endswith" {
			has = strings.HasSuffix
		}
		return text(func(r *run, args []any, _ *Dict) any {
			s, _, ok := r.within(s, args)
			if l, isTuple := r.argument(args, 0).(*list); isTuple && l.tuple {
				return slices.ContainsFunc(l.items, func(x any) bool { return has(s, r.str(x)) }) && ok
			}
			return has(s, r.str(args[0])) && ok
		})
	case "upper":
		return made(upper)
	case "lower", "casefold":
		if name == "casefold" {
			return made(func(s string) string { return lower(strings.ReplaceAll(s, "ß", "ss")) })
		}
		return made(lower)
	case "title":
		return made(title)
	case "capitalize":
		return made(capitalize)
	case "swapcase":
		return made(swapcase)
	case "isdigit":
		return holds(every(s, isDigit))
	case "isdecimal":
		return holds(every(s, func(c rune) bool { return unicode.Is(unicode.Nd, c) }))
	case "isnumeric":
		return holds(every(s, isNumeric))
	case "isalpha":
		return holds(every(s, unicode.IsLetter))
	case "isalnum":
		return holds(every(s, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }))
	case "isspace":
		return holds(every(s, space))
	case "isupper":
		return holds(oneCase(s, isUpper))
	case "islower":
		return holds(oneCase(s, isLower))
	case "istitle":
		return holds(isTitle(s))
	case "isascii":
		return holds(!strings.ContainsFunc(s, func(c rune) bool { return c >= 0x80 }))
	case "isprintable":
		return holds(!strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }))
	case "isidentifier":
		digit := len(s) > 0 && s[0] >= '0' && s[0] <= '9'
		return holds(!digit && every(s, func(c rune) bool {
			return c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.Is(unicode.M, c)
		}))
	case "find", "rfind", "index", "rindex":
		return text(func(r *run, args []any, _ *Dict) any {
			part, before, ok := r.within(s, args)
			find := strings.Index
			if name[0] == 'r' {
				find = strings.LastIndex
			}
			i := find(part, r.str(r.argument(args, 0)))
			if i < 0 || !ok {
				if strings.HasSuffix(name, "index") {
					r.fail("%s: the text is not there", name)
				}
				return int64(-1)
			}
			return int64(before + utf8.RuneCountInString(part[:i]))
		})
	case "count":
		return text(func(r *run, args []any, _ *Dict) any {
			part, _, ok := r.within(s, args)
			if !ok {
				return int64(0)
			}
			return int64(strings.Count(part, r.str(r.argument(args, 0))))
		})
	case "replace":
		return text(func(r *run, args []any, named *Dict) any {
			n, ok := index(option(args, 2, named, "count", int64(-1)))
			if !ok {
				r.fail("replace: the count is no integer")
			}
			return r.replace(s, r.str(r.argument(args, 0)), r.str(r.argument(args, 1)), n)
		})
	case "removeprefix":
		return text(func(r *run, args []any, _ *Dict) any { return strings.TrimPrefix(s, r.str(r.argument(args, 0))) })
	case "removesuffix":
		return text(func(r *run, args []any, _ *Dict) any { return strings.TrimSuffix(s, r.str(r.argument(args, 0))) })
	case "join":
		return text(func(r *run, args []any, _ *Dict) any {
			items := r.each(r.argument(args, 0))
			for _, x := range items {
				r.str(x)
			}
			return r.join(items, s)
		})
	case "partition", "rpartition":
		return text(func(r *run, args []any, _ *Dict) any {
			sep := r.str(r.argument(args, 0))
			if sep == "" {
				r.fail("%s at an empty string", name)
			}
			i := strings.Index(s, sep)
			if name == "rpartition" {
				i = strings.LastIndex(s, sep)
			}
			switch {
			case i >= 0:
				return tuple(s[:i], sep, s[i+len(sep):])
			case name == "rpartition":
				return tuple("", "", s)
			}
			return tuple(s, "", "")
		})
	case "splitlines":
		return text(func(r *run, args []any, named *Dict) any {
			return r.lines(s, truth(option(args, 0, named, "keepends", false)))
		})
	case "center", "ljust", "rjust", "zfill":
		return text(func(r *run, args []any, _ *Dict) any {
			width, ok := index(r.argument(args, 0))
			if !ok {
				r.fail("%s: the width is no integer", name)
			}
			fill := " "
			if name == "zfill" {
				fill = "0"
			} else if len(args) > 1 {
				fill = r.str(args[1])
			}
			if utf8.RuneCountInString(fill) != 1 {
				r.fail("%s: want one character to fill with", name)
			}
			return r.fill(s, width, fill, name)
		})
	case "expandtabs":
		return text(func(r *run, args []any, named *Dict) any {
			size, ok := index(option(args, 0, named, "tabsize", int64(8)))
			if !ok {
				r.fail("expandtabs: the size is no integer")
			}
			var out strings.Builder
			column := 0
			for _, c := range s {
				switch {
				case c == '\t' && size > 0:
					n := size - column%size
					r.write(&out, r.repeat(" ", n))
					column += n
				case c == '\t':
				default:
					out.WriteRune(c)
					if column++; c == '\n' || c == '\r' {
						column = 0
					}
				}
			}
			return out.String()
		})
	case "format":
		return text(func(r *run, args []any, named *Dict) any { return r.fields(s, args, named) })
	case "format_map":
		return text(func(r *run, args []any, _ *Dict) any {
			d, ok := r.argument(args, 0).(*Dict)
			if !ok {
				r.fail("format_map of %s, want a dictionary", r.typed(args[0]))
			}
			return r.fields(s, nil, d)
		})
	case "translate":
		return text(func(r *run, args []any, _ *Dict) any {
			d, ok := r.argument(args, 0).(*Dict)
			if !ok {
				r.fail("translate by %s, want a dictionary", r.typed(args[0]))
			}
			var out strings.Builder
			for _, c := range s {
				v, ok := d.values[int64(c)]
				switch n, isNumber := v.(int64); {
				case !ok:
					out.WriteRune(c)
				case isNumber:
					r.write(&out, string(rune(n)))
				case v != nil:
					r.write(&out, r.str(v))
				}
			}
			return out.String()
		})
	case "encode":
		return text(func(r *run, _ []any, _ *Dict) any {
			r.fail("encode: templates have no bytes")
			return nil
		})
	case "split", "rsplit":
		return callable(func(r *run, args []any, named *Dict) any {
			most, ok := index(option(args, 1, named, "maxsplit", int64(-1)))
			if !ok {
				r.fail("%s: the number of parts is no integer", name)
			}
			sep := ""
			if v := option(args, 0, named, "sep", nil); v != nil {
				if sep = r.str(v); sep == "" {
					r.fail("split at an empty string")
				}
			}
			return r.split(s, sep, most, name == "rsplit")
		})
	}
	return nil
}

// within returns the part of a text selected by the second and third argument of a method, the number of characters
// preceding it, and whether it exists.
func (r *run) within(s string, args []any) (part string, before int, ok bool) {
	if len(args) < 2 {
		return s, 0, true
	}
	n := utf8.RuneCountInString(s)
	place := func(i, usual int) int {
		if i >= len(args) || args[i] == nil {
			return usual
		}
		v, ok := index(args[i])
		if !ok {
			r.fail("a place in a text is no integer")
		}
		if v < 0 {
			v = max(0, v+n)
		}
		return v
	}
	from, to := place(1, 0), min(n, place(2, n))
	if from > to {
		return "", from, false
	}
	runes := []rune(s)
	return string(runes[from:to]), from, true
}

// strip removes white space, or the given characters, from the ends of a text.
func (r *run) strip(s string, chars any, left, right bool) string {
	in := space
	if chars != nil {
		set := r.str(chars)
		in = func(c rune) bool { return strings.ContainsRune(set, c) }
	}
	if left {
		s = strings.TrimLeftFunc(s, in)
	}
	if right {
		s = strings.TrimRightFunc(s, in)
	}
	return s
}

// fill pads a text to the given width.
func (r *run) fill(s string, width int, with, where string) string {
	missing := width - utf8.RuneCountInString(s)
	if missing <= 0 {
		return s
	}
	switch where {
	case "ljust":
		return r.made(s + r.repeat(with, missing))
	case "rjust":
		return r.made(r.repeat(with, missing) + s)
	case "zfill":
		sign := ""
		if s != "" && (s[0] == '-' || s[0] == '+') {
			sign, s = s[:1], s[1:]
		}
		return r.made(sign + r.repeat(with, missing) + s)
	}
	left := missing/2 + missing&width&1 // as in CPython
	return r.made(r.repeat(with, left) + s + r.repeat(with, missing-left))
}

// lines implements Python's splitlines.
func (r *run) lines(s string, ends bool) any {
	out := &list{}
	for s != "" {
		r.spend(1)
		i := strings.IndexFunc(s, func(c rune) bool {
			return c >= '\n' && c <= '\r' || c >= 0x1c && c <= 0x1e || c == 0x85 || c == 0x2028 || c == 0x2029
		})
		if i < 0 {
			out.items = append(out.items, s)
			break
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		if ends {
			out.items = append(out.items, s[:i+n])
		} else {
			out.items = append(out.items, s[:i])
		}
		s = s[i+n:]
	}
	return out
}

// replace replaces at most n occurrences, or all of them if n is negative.
func (r *run) replace(s, old, with string, n int) string {
	count := strings.Count(s, old)
	if n >= 0 {
		count = min(count, n)
	}
	r.spend((len(s) + count*len(with)) / 16)
	return strings.Replace(s, old, with, n)
}

// join concatenates items, separated by a string.
func (r *run) join(items []any, sep string) string {
	var out strings.Builder
	for i, x := range items {
		if i > 0 {
			r.write(&out, sep)
		}
		r.write(&out, r.show(x))
	}
	return out.String()
}

// split splits at most n times (without limit if n is negative), from the right if right is set.
func (r *run) split(s, sep string, most int, right bool) any {
	out := &list{}
	rest := s
	for i := 0; ; i++ {
		last := most >= 0 && i >= most
		if sep == "" {
			if right {
				rest = strings.TrimRightFunc(rest, space)
			} else {
				rest = strings.TrimLeftFunc(rest, space)
			}
			if strings.TrimFunc(rest, space) == "" {
				break
			}
		}
		r.spend(1)
		at, n := -1, len(sep)
		switch {
		case last:
		case sep == "" && right:
			at = strings.LastIndexFunc(rest, space)
		case sep == "":
			at = strings.IndexFunc(rest, space)
		case right:
			at = strings.LastIndex(rest, sep)
		default:
			at = strings.Index(rest, sep)
		}
		if at < 0 {
			out.items = append(out.items, rest)
			break
		}
		if sep == "" {
			_, n = utf8.DecodeRuneInString(rest[at:])
		}
		if right {
			out.items = append(out.items, rest[at+n:])
			rest = rest[:at]
		} else {
			out.items = append(out.items, rest[:at])
			rest = rest[at+n:]
		}
	}
	if right {
		slices.Reverse(out.items)
	}
	return out
}

// parseInteger implements Python's int of a text and a base; base 0 follows the prefix.
func parseInteger(s string, base int) (any, bool) {
	s = strings.ToLower(strings.TrimFunc(s, space))
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	for prefix, b := range map[string]int{"0x": 16, "0o": 8, "0b": 2} {
		if strings.HasPrefix(s, prefix) && (base == b || base == 0) {
			s, base = strings.TrimPrefix(s[2:], "_"), b
		}
	}
	if base == 0 {
		if base = 10; len(s) > 1 && s[0] == '0' && strings.Trim(s, "0_") != "" {
			return nil, false
		}
	}
	if s == "" || base < 2 || base > 36 || s[0] == '_' || s[len(s)-1] == '_' || strings.Contains(s, "__") || len(s) > maxDigits || strings.ContainsAny(s, "+-") {
		return nil, false
	}
	v, ok := new(big.Int).SetString(sign+strings.ReplaceAll(plainDigits(s), "_", ""), base)
	if !ok {
		return nil, false
	}
	return small(v), true
}

// plainDigits converts the decimal digits of all scripts to ASCII.
func plainDigits(s string) string {
	return strings.Map(func(c rune) rune {
		if c < 0x80 || !unicode.Is(unicode.Nd, c) {
			return c
		}
		d := rune(0) // digits come in runs of ten
		for unicode.Is(unicode.Nd, c-d-1) && d < 9 {
			d++
		}
		return '0' + d
	}, s)
}

// parseFloat implements Python's float of a text.
func parseFloat(s string) (float64, bool) {
	s = plainDigits(strings.TrimFunc(s, space))
	if strings.ContainsAny(s, "xXpP") || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil && f != 0 { // out of range: infinite
		return f, true
	}
	return f, err == nil
}
