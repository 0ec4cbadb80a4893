package jinja

import (
	"slices"
	"strings"
	"unicode"

	"github.com/gomoe/gomoe/internal/quoted"
)

// attribute returns v.name: a method, or the value of a key.
func (r *run) attribute(v any, name string) any {
	if f := r.method(v, name); f != nil {
		return f
	}
	switch v := v.(type) {
	case undefined:
		r.fail("%s is undefined, and has no attribute %s", quoted.Text(v.name), quoted.Text(name))
	case *Dict:
		if x, ok := v.values[name]; ok {
			return x
		}
	}
	return undefined{name}
}

// method returns a method of a value's type, nil if there is none.
func (r *run) method(v any, name string) any {
	switch v := v.(type) {
	case *Dict:
		if v.space {
			return nil
		}
		return r.ofDict(v, name)
	case string:
		return ofString(v, name)
	case markup:
		return ofString(string(v), name)
	case *list:
		if i := slices.Index(v.names, name); i >= 0 {
			return v.items[i]
		}
		return r.ofList(v, name)
	case *object:
		return v.attributes(name)
	case bool, int64, float64:
		return ofNumber(v, name)
	}
	if _, ok := integer(v); ok {
		return ofNumber(v, name)
	}
	return nil
}

// item returns v[i].
func (r *run) item(v, i any) any {
	switch v := v.(type) {
	case undefined:
		r.fail("%s is undefined, and has no items", quoted.Text(v.name))
	case *Dict:
		if h, ok := hash(i); ok {
			if x, ok := v.values[h]; ok {
				return x
			}
		}
	case *list:
		if n, ok := index(i); ok && v.view == "" || ok && strings.HasPrefix(v.view, "range") {
			if n < 0 {
				n += len(v.items)
			}
			if n >= 0 && n < len(v.items) {
				return v.items[n]
			}
			return undefined{"an item of a list"}
		}
	case string:
		if _, ok := index(i); ok {
			return r.item(&list{items: r.each(v)}, i)
		}
	case markup:
		return r.item(string(v), i)
	}
	if isText(i) {
		return r.attribute(v, r.show(i))
	}
	return undefined{"an item"}
}

// bounds returns the indices selected by v[a:b:c] in a sequence of n items.
func (r *run) bounds(at [3]any, n int) []int {
	number := func(x any, usual int) int {
		if x == nil {
			return usual
		}
		i, ok := index(x)
		if !ok {
			r.fail("a slice from %s, want a number", r.typed(x))
		}
		return i
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
	var out []int
	if step > 0 {
		for i, to := bound(at[0], 0, 0, n), bound(at[1], n, 0, n); i < to; i += step {
			out = append(out, i)
		}
	} else {
		for i, to := bound(at[0], n-1, -1, n-1), bound(at[1], -1, -1, n-1); i > to; i += step {
			out = append(out, i)
		}
	}
	return out
}

// slice returns v[a:b:c].
func (r *run) slice(v any, at [3]any) any {
	if l, ok := v.(*list); !isText(v) && (!ok || l.view != "" && !strings.HasPrefix(l.view, "range")) {
		r.fail("a slice of %s, want a string or a list", r.typed(v))
	}
	items := r.each(v)
	places := r.bounds(at, len(items))
	out := make([]any, len(places))
	for i, p := range places {
		out[i] = items[p]
	}
	if isText(v) {
		var b strings.Builder
		for _, c := range out {
			b.WriteString(c.(string))
		}
		return b.String()
	}
	return &list{items: out, tuple: v.(*list).tuple}
}

// argument returns a required argument of a function.
func (r *run) argument(args []any, i int) any {
	if i >= len(args) {
		r.fail("a function lacks an argument")
	}
	return args[i]
}

func (r *run) str(v any) string {
	if !isText(v) {
		r.fail("%s, want a string", r.typed(v))
	}
	return r.show(v)
}

// items returns the pairs of a dictionary.
func (r *run) items(d *Dict) []any {
	r.spend(len(d.keys))
	out := make([]any, len(d.keys))
	for i, k := range d.keys {
		out[i] = tuple(k, d.at(k))
	}
	return out
}

func (r *run) ofDict(d *Dict, name string) any {
	switch name {
	case "items":
		return callable(func(r *run, _ []any, _ *Dict) any { return &list{items: r.items(d), view: "dict_items"} })
	case "keys":
		return callable(func(r *run, _ []any, _ *Dict) any { return &list{items: r.each(d), view: "dict_keys"} })
	case "values":
		return callable(func(r *run, _ []any, _ *Dict) any {
			r.spend(len(d.keys))
			out := &list{view: "dict_values"}
			for _, k := range d.keys {
				out.items = append(out.items, d.at(k))
			}
			return out
		})
	case "copy":
		return callable(func(r *run, _ []any, _ *Dict) any {
			r.spend(len(d.keys))
			out := NewDict()
			out.Update(d)
			return out
		})
	case "fromkeys":
		return callable(fromKeys)
	case "get":
		return callable(func(r *run, args []any, _ *Dict) any {
			if v, ok := d.values[r.key(r.argument(args, 0))]; ok {
				return v
			}
			if len(args) > 1 {
				return args[1]
			}
			return nil
		})
	case "update", "pop", "setdefault", "clear", "popitem":
		return callable(func(r *run, _ []any, _ *Dict) any {
			r.fail("%s changes a dictionary, which templates cannot", name)
			return nil
		})
	}
	return nil
}

// fromKeys implements Python's dict.fromkeys.
func fromKeys(r *run, args []any, _ *Dict) any {
	d := NewDict()
	var v any
	if len(args) > 1 {
		v = args[1]
	}
	for _, k := range r.each(r.argument(args, 0)) {
		d.put(k, r.key(k), v)
	}
	return d
}

func (r *run) ofList(l *list, name string) any {
	if l.view == generator || l.view == "dict_keys" || l.view == "dict_values" || l.view == "dict_items" {
		return nil
	}
	switch name {
	case "index":
		return callable(func(r *run, args []any, _ *Dict) any {
			i := slices.IndexFunc(l.items, func(x any) bool { return r.equal(x, r.argument(args, 0), 0) })
			if i < 0 {
				r.fail("index: the value is not in the list")
			}
			return int64(i)
		})
	case "count":
		return callable(func(r *run, args []any, _ *Dict) any {
			n := int64(0)
			for _, x := range l.items {
				if r.equal(x, r.argument(args, 0), 0) {
					n++
				}
			}
			return n
		})
	case "copy":
		if l.tuple {
			return nil
		}
		return callable(func(r *run, _ []any, _ *Dict) any {
			r.spend(len(l.items))
			return &list{items: slices.Clone(l.items)}
		})
	case "append", "pop", "insert", "extend", "remove", "sort", "reverse", "clear":
		if l.tuple {
			return nil
		}
		return callable(func(r *run, _ []any, _ *Dict) any {
			r.fail("%s changes a list, which templates cannot", name)
			return nil
		})
	}
	return nil
}

// ofNumber returns an attribute of a number.
func ofNumber(v any, name string) any {
	constant := func(v any) any { return callable(func(*run, []any, *Dict) any { return v }) }
	i, isInteger := integer(v)
	switch name {
	case "real":
		if isInteger {
			return small(i)
		}
		return v
	case "imag":
		if isInteger {
			return int64(0)
		}
		return 0.0
	case "conjugate":
		if isInteger {
			return constant(small(i))
		}
		return constant(v)
	case "is_integer":
		_, ok := v.(float64)
		if ok {
			_, ok = whole(v.(float64))
		}
		return constant(isInteger || ok)
	}
	if !isInteger {
		return nil
	}
	switch name {
	case "numerator":
		return small(i)
	case "denominator":
		return int64(1)
	case "bit_length":
		return constant(int64(i.BitLen()))
	}
	return nil
}

// isNumeric implements Python's isnumeric, except for ideographs that are numbers.
func isNumeric(c rune) bool { return unicode.IsNumber(c) }

// isDigit implements Python's isdigit: decimal digits, and superscript, subscript and circled ones.
func isDigit(c rune) bool {
	return unicode.Is(unicode.Nd, c) || c == '²' || c == '³' || c == '¹' || c == 0x2070 || c >= 0x2074 && c <= 0x2079 || c >= 0x2080 && c <= 0x2089 ||
		c >= 0x2460 && c <= 0x2468 || c >= 0x2474 && c <= 0x247c || c >= 0x2488 && c <= 0x2490
}
