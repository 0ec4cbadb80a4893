package jinja

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gomoe/gomoe/internal/quoted"
)

type filter func(r *run, v any, args []any, named *Dict) any

// option returns an argument by position or name, or the default.
func option(args []any, i int, named *Dict, name string, usual any) any {
	if i < len(args) {
		return args[i]
	}
	if v, ok := named.values[name]; ok {
		return v
	}
	return usual
}

// number returns an integer argument.
func (r *run) number(args []any, i int, named *Dict, name string, usual int) int {
	v, ok := index(option(args, i, named, name, int64(usual)))
	if !ok {
		r.fail("%s is no integer", name)
	}
	return v
}

// must returns a required argument of a filter, by position or name.
func (r *run) must(args []any, i int, named *Dict, name string) any {
	if v, ok := named.values[name]; ok && i >= len(args) {
		return v
	}
	return r.argument(args, i)
}

// filterNamed returns a filter of Jinja.
func filterNamed(name string) (filter, bool) {
	for _, of := range []func(string) filter{textFilter, listFilter, valueFilter} {
		if f := of(name); f != nil {
			return f, true
		}
	}
	return nil, false
}

// valueFilter returns a filter of any value.
func valueFilter(name string) filter {
	switch name {
	case "default", "d":
		return func(r *run, v any, args []any, named *Dict) any {
			_, missing := v.(undefined)
			if missing || truth(option(args, 1, named, "boolean", false)) && !truth(v) {
				return option(args, 0, named, "default_value", "")
			}
			return v
		}
	case "tojson":
		return func(r *run, v any, args []any, named *Dict) any { return r.json(v, args, named) }
	case "attr":
		return func(r *run, v any, args []any, named *Dict) any {
			which := r.str(r.must(args, 0, named, "name"))
			if f := r.method(v, which); f != nil {
				return f
			}
			return undefined{which}
		}
	case "int":
		return func(r *run, v any, args []any, named *Dict) any {
			usual := option(args, 0, named, "default", int64(0))
			switch v := v.(type) {
			case string, markup:
				s := r.show(v)
				if i, ok := parseInteger(s, r.number(args, 1, named, "base", 10)); ok {
					return i
				}
				if f, ok := parseFloat(s); ok {
					if i, ok := whole(math.Trunc(f)); ok {
						return i
					}
				}
				return usual
			case float64:
				return r.toInteger(v)
			}
			if i, ok := integer(v); ok {
				return small(i)
			}
			return usual
		}
	case "float":
		return func(r *run, v any, args []any, named *Dict) any {
			f, ok := numeric(v)
			if isText(v) {
				f, ok = parseFloat(r.show(v))
			}
			if !ok {
				return option(args, 0, named, "default", 0.0)
			}
			return f
		}
	case "abs":
		return func(r *run, v any, _ []any, _ *Dict) any {
			if f, ok := v.(float64); ok {
				return math.Abs(f)
			}
			if i, ok := integer(v); ok {
				if i.Sign() < 0 {
					return r.negative(v)
				}
				return small(i)
			}
			r.fail("abs of %s, want a number", r.typed(v))
			return nil
		}
	case "round":
		return func(r *run, v any, args []any, named *Dict) any {
			return r.round(v, r.number(args, 0, named, "precision", 0), r.str(option(args, 1, named, "method", "common")))
		}
	case "filesizeformat":
		return func(r *run, v any, args []any, named *Dict) any {
			f, ok := numeric(v)
			if isText(v) {
				f, ok = parseFloat(r.show(v))
			}
			if !ok {
				r.fail("filesizeformat of %s, want a number", r.typed(v))
			}
			return fileSize(f, truth(option(args, 0, named, "binary", false)))
		}
	case "pprint":
		return func(r *run, v any, _ []any, _ *Dict) any {
			if d, ok := v.(*Dict); ok { // sorted by keys
				sorted := NewDict()
				keys := slices.Clone(d.keys)
				slices.SortStableFunc(keys, r.comparison)
				for _, k := range keys {
					sorted.put(k, r.key(k), d.at(k))
				}
				v = sorted
			}
			return r.repr(v, 0)
		}
	case "xmlattr":
		return func(r *run, v any, args []any, named *Dict) any {
			d, ok := v.(*Dict)
			if !ok {
				r.fail("xmlattr of %s, want a dictionary", r.typed(v))
			}
			var parts []any
			for _, k := range d.keys {
				_, missing := d.at(k).(undefined)
				if d.at(k) == nil || missing {
					continue
				}
				if strings.ContainsFunc(r.show(k), func(c rune) bool { return space(c) || strings.ContainsRune("/>=", c) }) {
					r.fail("xmlattr: a key with white space, /, > or =")
				}
				parts = append(parts, string(r.escaped(k))+`="`+string(r.escaped(d.at(k)))+`"`)
			}
			s := r.join(parts, " ")
			if s != "" && truth(option(args, 0, named, "autospace", true)) {
				s = " " + s
			}
			return s
		}
	}
	return nil
}

// round implements the filter round.
func (r *run) round(v any, precision int, method string) any {
	f, ok := numeric(v)
	if !ok {
		r.fail("round of %s, want a number", r.typed(v))
	}
	if max(precision, -precision) > 400 {
		r.fail("round: a precision of %d", precision)
	}
	switch method {
	case "ceil", "floor":
		by, g := math.Pow(10, float64(precision)), math.Ceil
		if method == "floor" {
			g = math.Floor
		}
		return g(f*by) / by
	case "common":
	default:
		r.fail("round: the method %s, want common, ceil or floor", quoted.Text(method))
	}
	i, isInteger := integer(v)
	if isInteger && precision >= 0 {
		return small(i)
	}
	var out float64
	switch {
	case math.IsInf(f, 0) || math.IsNaN(f):
		return f
	case precision >= 0:
		out, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'f', precision, 64), 64)
	default:
		by := math.Pow(10, float64(-precision))
		out = math.RoundToEven(f/by) * by
	}
	if isInteger {
		n, _ := whole(out)
		return n
	}
	return out
}

func fileSize(f float64, binary bool) string {
	base, units := 1000.0, []string{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"}
	if binary {
		base, units = 1024, []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}
	}
	switch {
	case f == 1:
		return "1 Byte"
	case f < base:
		return strconv.FormatInt(int64(f), 10) + " Bytes"
	}
	unit := 0.0
	for i, u := range units {
		if unit = math.Pow(base, float64(i+2)); f < unit || i == len(units)-1 {
			return strconv.FormatFloat(base*f/unit, 'f', 1, 64) + " " + u
		}
	}
	return ""
}

// textFilter returns a filter of texts.
func textFilter(name string) filter {
	text := func(f func(string) string) filter {
		return func(r *run, v any, _ []any, _ *Dict) any {
			s := r.made(f(r.show(v)))
			if _, ok := v.(markup); ok {
				return markup(s)
			}
			return s
		}
	}
	switch name {
	case "trim":
		return func(r *run, v any, args []any, named *Dict) any {
			return r.strip(r.show(v), option(args, 0, named, "chars", nil), true, true)
		}
	case "upper":
		return text(upper)
	case "lower":
		return text(lower)
	case "title":
		return text(titleFilter)
	case "capitalize":
		return text(capitalize)
	case "string":
		return text(func(s string) string { return s })
	case "striptags":
		return text(stripTags)
	case "safe":
		return func(r *run, v any, _ []any, _ *Dict) any { return markup(r.show(v)) }
	case "escape", "e":
		return func(r *run, v any, _ []any, _ *Dict) any { return r.escaped(v) }
	case "forceescape":
		return func(r *run, v any, _ []any, _ *Dict) any { return r.escaped(r.show(v)) }
	case "replace":
		return func(r *run, v any, args []any, named *Dict) any {
			n := -1
			if c := option(args, 2, named, "count", nil); c != nil {
				n = r.number(args, 2, named, "count", -1)
			}
			return r.replace(r.show(v), r.show(r.must(args, 0, named, "old")), r.show(r.must(args, 1, named, "new")), n)
		}
	case "center":
		return func(r *run, v any, args []any, named *Dict) any {
			return r.fill(r.show(v), r.number(args, 0, named, "width", 80), " ", "center")
		}
	case "format":
		return func(r *run, v any, args []any, named *Dict) any {
			if len(args) > 0 && len(named.keys) > 0 {
				r.fail("format: want values by place or by name, not both")
			}
			if len(named.keys) > 0 {
				return r.format(r.show(v), named)
			}
			return r.format(r.show(v), tuple(args...))
		}
	case "indent":
		return func(r *run, v any, args []any, named *Dict) any {
			by, ok := option(args, 0, named, "width", int64(4)).(string)
			if !ok {
				by = r.repeat(" ", r.number(args, 0, named, "width", 4))
			}
			first, blank := truth(option(args, 1, named, "first", false)), truth(option(args, 2, named, "blank", false))
			lines := strings.Split(r.show(v), "\n")
			r.spend(len(lines) * (len(by)/16 + 1))
			for i := range lines {
				if (i > 0 || first) && (lines[i] != "" || blank || i == 0) {
					lines[i] = by + lines[i]
				}
			}
			return r.made(strings.Join(lines, "\n"))
		}
	case "truncate":
		return func(r *run, v any, args []any, named *Dict) any {
			s := r.show(v)
			most, end, leeway := r.number(args, 0, named, "length", 255), r.str(option(args, 2, named, "end", "...")), 5
			if option(args, 3, named, "leeway", nil) != nil {
				leeway = r.number(args, 3, named, "leeway", 5)
			}
			short := most - utf8.RuneCountInString(end)
			if short < 0 || leeway < 0 {
				r.fail("truncate to %d characters, want as many as the end has at least, and a leeway from 0 on", most)
			}
			if utf8.RuneCountInString(s) <= most+leeway {
				return s
			}
			s = firstRunes(s, short)
			if i := strings.LastIndex(s, " "); i >= 0 && !truth(option(args, 1, named, "killwords", false)) {
				s = s[:i]
			}
			return s + end
		}
	case "wordcount":
		return func(r *run, v any, _ []any, _ *Dict) any {
			return int64(len(strings.FieldsFunc(r.show(v), func(c rune) bool { return !wordRune(c) })))
		}
	case "wordwrap":
		return func(r *run, v any, args []any, named *Dict) any {
			end := "\n"
			if s := option(args, 2, named, "wrapstring", nil); s != nil {
				end = r.str(s)
			}
			return r.wrap(r.show(v), r.number(args, 0, named, "width", 79), truth(option(args, 1, named, "break_long_words", true)), truth(option(args, 3, named, "break_on_hyphens", true)), end)
		}
	case "urlencode":
		return func(r *run, v any, _ []any, _ *Dict) any {
			pairs, isList := v.(*list)
			if d, ok := v.(*Dict); ok {
				pairs, isList = &list{items: r.items(d)}, true
			}
			if !isList {
				return r.made(percent(r.show(v), "/"))
			}
			var parts []any
			for _, p := range pairs.items {
				pair, ok := p.(*list)
				if !ok || len(pair.items) != 2 {
					r.fail("urlencode of a list, want pairs")
				}
				parts = append(parts, strings.ReplaceAll(percent(r.show(pair.items[0]), "")+"="+percent(r.show(pair.items[1]), ""), "%20", "+"))
			}
			return r.join(parts, "&")
		}
	}
	return nil
}

// percent percent-encodes a text for a URL.
func percent(s, safe string) string {
	const hex = "0123456789ABCDEF"
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		c := s[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("_.-~"+safe, c) >= 0 {
			out = append(out, c)
		} else {
			out = append(out, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(out)
}
