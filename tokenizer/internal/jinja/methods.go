package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// attribute returns v.name: a method, or the value of a key.
func (r *run) attribute(v any, name string) any {
	switch v := v.(type) {
	case undefined:
		r.fail("%q is undefined, and has no attribute %q", v.name, name)
	case *Dict:
		if f := r.ofDict(v, name); f != nil && !v.space {
			return f
		}
		if x, ok := v.values[name]; ok {
			return x
		}
	case string:
		if f := ofString(v, name); f != nil {
			return f
		}
	case *list:
		switch name {
		case "index":
			return callable(func(r *run, args []any, _ *Dict) any {
				i := slices.IndexFunc(v.items, func(x any) bool { return r.equal(x, r.argument(args, 0), 0) })
				if i < 0 {
					r.fail("index: the value is not in the list")
				}
				return int64(i)
			})
		case "count":
			return callable(func(r *run, args []any, _ *Dict) any {
				n := int64(0)
				for _, x := range v.items {
					if r.equal(x, r.argument(args, 0), 0) {
						n++
					}
				}
				return n
			})
		case "append", "pop", "insert", "extend", "remove", "sort", "reverse", "clear":
			r.fail("%s changes a list, which templates cannot", name)
		}
	}
	return undefined{name}
}

// item returns v[i].
func (r *run) item(v, i any) any {
	switch v := v.(type) {
	case undefined:
		r.fail("%q is undefined, and has no items", v.name)
	case *Dict:
		if k, ok := i.(string); ok {
			if x, ok := v.values[k]; ok {
				return x
			}
			return r.attribute(v, k)
		}
	case *list:
		if n, ok := i.(int64); ok {
			if n < 0 {
				n += int64(len(v.items))
			}
			if n >= 0 && n < int64(len(v.items)) {
				return v.items[n]
			}
			return undefined{"an item of a list"}
		}
	case string:
		if _, ok := i.(int64); ok {
			return r.item(&list{items: r.each(v)}, i)
		}
	}
	if k, ok := i.(string); ok {
		return r.attribute(v, k)
	}
	return undefined{"an item"}
}

// slice returns v[a:b:c].
func (r *run) slice(v any, at [3]any) any {
	s, isString := v.(string)
	items := r.each(v)
	n := len(items)
	number := func(x any, usual int) int {
		if x == nil {
			return usual
		}
		i, ok := x.(int64)
		if !ok {
			r.fail("a slice from %s, want a number", r.typed(x))
		}
		return int(max(-1<<40, min(1<<40, i)))
	}
	step := number(at[2], 1)
	if step == 0 {
		r.fail("a slice with a step of 0")
	}
	bound := func(x any, usual, lo, hi int) int {
		i := number(x, usual)
		if x != nil && i < 0 {
			i += n
		}
		return max(lo, min(hi, i))
	}
	var out []any
	if step > 0 {
		for i, to := bound(at[0], 0, 0, n), bound(at[1], n, 0, n); i < to; i += step {
			out = append(out, items[i])
		}
	} else {
		for i, to := bound(at[0], n-1, -1, n-1), bound(at[1], -1, -1, n-1); i > to; i += step {
			out = append(out, items[i])
		}
	}
	if isString {
		if len(out) == n && step == 1 {
			return s
		}
		var b strings.Builder
		for _, c := range out {
			b.WriteString(c.(string))
		}
		return b.String()
	}
	l, ok := v.(*list)
	return &list{out, ok && l.tuple}
}

// argument returns an argument that a function must be given.
func (r *run) argument(args []any, i int) any {
	if i >= len(args) {
		r.fail("a function lacks an argument")
	}
	return args[i]
}

func (r *run) str(v any) string {
	s, ok := v.(string)
	if !ok {
		r.fail("%s, want a string", r.typed(v))
	}
	return s
}

func (r *run) ofDict(d *Dict, name string) any {
	switch name {
	case "items":
		return callable(func(r *run, _ []any, _ *Dict) any {
			r.spend(len(d.keys))
			out := &list{}
			for _, k := range d.keys {
				out.items = append(out.items, &list{[]any{k, d.values[k]}, true})
			}
			return out
		})
	case "keys":
		return callable(func(r *run, _ []any, _ *Dict) any { return &list{items: r.each(d)} })
	case "values":
		return callable(func(r *run, _ []any, _ *Dict) any {
			r.spend(len(d.keys))
			out := &list{}
			for _, k := range d.keys {
				out.items = append(out.items, d.values[k])
			}
			return out
		})
	case "get":
		return callable(func(r *run, args []any, _ *Dict) any {
			k, _ := r.argument(args, 0).(string)
			if v, ok := d.values[k]; ok {
				return v
			}
			if len(args) > 1 {
				return args[1]
			}
			return nil
		})
	case "update", "pop", "setdefault", "clear", "popitem":
		r.fail("%s changes a dictionary, which templates cannot", name)
	}
	return nil
}

// ofString returns a method of a string, or nil.
func ofString(s, name string) any {
	text := func(f func(r *run, args []any) any) any {
		return callable(func(r *run, args []any, _ *Dict) any {
			r.spend(len(s) / 16)
			return f(r, args)
		})
	}
	all := func(f func(rune) bool) any {
		return text(func(*run, []any) any { return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return !f(c) }) })
	}
	strip := func(left, right bool) any {
		return text(func(r *run, args []any) any {
			in := unicode.IsSpace
			if len(args) > 0 && args[0] != nil {
				chars := r.str(args[0])
				in = func(c rune) bool { return strings.ContainsRune(chars, c) }
			}
			out := s
			if left {
				out = strings.TrimLeftFunc(out, in)
			}
			if right {
				out = strings.TrimRightFunc(out, in)
			}
			return out
		})
	}
	affix := func(has func(s, x string) bool) any {
		return text(func(r *run, args []any) any {
			if l, ok := r.argument(args, 0).(*list); ok {
				return slices.ContainsFunc(l.items, func(x any) bool { return has(s, r.str(x)) })
			}
			return has(s, r.str(args[0]))
		})
	}
	switch name {
	case "strip":
		return strip(true, true)
	case "lstrip":
		return strip(true, false)
	case "rstrip":
		return strip(false, true)
	case "startswith":
		return affix(strings.HasPrefix)
	case "endswith":
		return affix(strings.HasSuffix)
	case "upper":
		return text(func(r *run, _ []any) any { return strings.ToUpper(s) })
	case "lower":
		return text(func(r *run, _ []any) any { return strings.ToLower(s) })
	case "title":
		return text(func(r *run, _ []any) any { return title(s) })
	case "capitalize":
		return text(func(r *run, _ []any) any { return capitalize(s) })
	case "isdigit":
		return all(unicode.IsDigit)
	case "isalpha":
		return all(unicode.IsLetter)
	case "isalnum":
		return all(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) })
	case "isspace":
		return all(unicode.IsSpace)
	case "isupper":
		return text(func(*run, []any) any { return s == strings.ToUpper(s) && s != strings.ToLower(s) })
	case "islower":
		return text(func(*run, []any) any { return s == strings.ToLower(s) && s != strings.ToUpper(s) })
	case "find", "rfind":
		return text(func(r *run, args []any) any {
			i := strings.Index(s, r.str(r.argument(args, 0)))
			if name == "rfind" {
				i = strings.LastIndex(s, r.str(args[0]))
			}
			if i < 0 {
				return int64(-1)
			}
			return int64(utf8.RuneCountInString(s[:i]))
		})
	case "count":
		return text(func(r *run, args []any) any { return int64(strings.Count(s, r.str(r.argument(args, 0)))) })
	case "replace":
		return text(func(r *run, args []any) any {
			n := -1
			if len(args) > 2 {
				i, _ := args[2].(int64)
				n = int(i)
			}
			return r.replace(s, r.str(r.argument(args, 0)), r.str(r.argument(args, 1)), n)
		})
	case "removeprefix":
		return text(func(r *run, args []any) any { return strings.TrimPrefix(s, r.str(r.argument(args, 0))) })
	case "removesuffix":
		return text(func(r *run, args []any) any { return strings.TrimSuffix(s, r.str(r.argument(args, 0))) })
	case "join":
		return text(func(r *run, args []any) any { return r.join(r.argument(args, 0), s) })
	case "splitlines":
		return text(func(r *run, _ []any) any {
			out := &list{}
			for line := range strings.Lines(s) {
				out.items = append(out.items, strings.TrimSuffix(line, "\n"))
			}
			return out
		})
	case "split", "rsplit":
		return callable(func(r *run, args []any, named *Dict) any {
			most := -1
			if m, ok := named.values["maxsplit"].(int64); ok {
				most = int(m)
			} else if len(args) > 1 {
				m, _ := args[1].(int64)
				most = int(m)
			}
			sep := ""
			if len(args) > 0 && args[0] != nil {
				if sep = r.str(args[0]); sep == "" {
					r.fail("split at an empty string")
				}
			}
			return r.split(s, sep, most, name == "rsplit")
		})
	}
	return nil
}

// replace replaces at most n times, always where n is below zero.
func (r *run) replace(s, old, with string, n int) string {
	count := strings.Count(s, old)
	if n >= 0 {
		count = min(count, n)
	}
	r.spend((len(s) + count*len(with)) / 16)
	return strings.Replace(s, old, with, n)
}

// join joins the items of a list with a string between them.
func (r *run) join(v any, sep string) string {
	items := r.each(v)
	var out strings.Builder
	for i, x := range items {
		if i > 0 {
			r.write(&out, sep)
		}
		r.write(&out, r.show(x))
	}
	return out.String()
}

// split cuts at most n times (always where n is below zero), from the right if so asked.
func (r *run) split(s, sep string, most int, right bool) any {
	out := &list{}
	rest := s
	for i := 0; ; i++ {
		if sep == "" {
			rest = strings.TrimFunc(rest, unicode.IsSpace)
			if rest == "" {
				break
			}
		}
		r.spend(1)
		at, n := -1, len(sep)
		switch {
		case most >= 0 && i == most:
		case sep == "" && right:
			at, n = strings.LastIndexFunc(rest, unicode.IsSpace), 1
		case sep == "":
			at, n = strings.IndexFunc(rest, unicode.IsSpace), 1
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

func capitalize(s string) string {
	for i, c := range s {
		return string(unicode.ToTitle(c)) + strings.ToLower(s[i+len(string(c)):])
	}
	return ""
}

// title begins every word with a capital letter.
func title(s string) string {
	before := false
	return strings.Map(func(c rune) rune {
		inside := before
		before = unicode.IsLetter(c)
		if inside {
			return unicode.ToLower(c)
		}
		return unicode.ToTitle(c)
	}, s)
}
