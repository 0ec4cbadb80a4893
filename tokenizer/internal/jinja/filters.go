package jinja

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

type filter func(r *run, v any, args []any, named *Dict) any

// option returns an argument by place or name, or the usual value.
func option(args []any, i int, named *Dict, name string, usual any) any {
	if i < len(args) {
		return args[i]
	}
	if v, ok := named.values[name]; ok {
		return v
	}
	return usual
}

// filterNamed returns a filter of Jinja.
func filterNamed(name string) (filter, bool) {
	text := func(f func(string) string) (filter, bool) {
		return func(r *run, v any, _ []any, _ *Dict) any { return r.made(f(r.show(v))) }, true
	}
	switch name {
	case "trim":
		return func(r *run, v any, args []any, _ *Dict) any {
			return r.call(ofString(r.show(v), "strip"), args, NewDict())
		}, true
	case "upper":
		return text(strings.ToUpper)
	case "lower":
		return text(strings.ToLower)
	case "title":
		return text(title)
	case "capitalize":
		return text(capitalize)
	case "string", "safe":
		return text(func(s string) string { return s })
	case "escape", "e":
		return text(strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;").Replace)
	case "replace":
		return func(r *run, v any, args []any, named *Dict) any {
			n, ok := option(args, 2, named, "count", nil).(int64)
			if !ok {
				n = -1
			}
			return r.replace(r.show(v), r.show(r.argument(args, 0)), r.show(r.argument(args, 1)), int(n))
		}, true
	case "length", "count":
		return func(r *run, v any, _ []any, _ *Dict) any {
			switch v := v.(type) {
			case string:
				return int64(utf8.RuneCountInString(v))
			case *list:
				return int64(len(v.items))
			case *Dict:
				return int64(len(v.keys))
			case undefined:
				return int64(0)
			}
			r.fail("%s has no length", r.typed(v))
			return nil
		}, true
	case "join":
		return func(r *run, v any, args []any, named *Dict) any {
			if a, ok := option(args, 1, named, "attribute", nil).(string); ok {
				v = &list{items: r.attributes(r.each(v), a)}
			}
			return r.join(v, r.show(option(args, 0, named, "d", "")))
		}, true
	case "list":
		return func(r *run, v any, _ []any, _ *Dict) any { return &list{items: r.each(v)} }, true
	case "first", "last":
		return func(r *run, v any, _ []any, _ *Dict) any {
			items := r.each(v)
			if len(items) == 0 {
				return undefined{"the " + name + " of no items"}
			}
			if name == "last" {
				return items[len(items)-1]
			}
			return items[0]
		}, true
	case "default", "d":
		return func(r *run, v any, args []any, named *Dict) any {
			_, missing := v.(undefined)
			if missing || truth(option(args, 1, named, "boolean", false)) && !truth(v) {
				return option(args, 0, named, "default_value", "")
			}
			return v
		}, true
	case "tojson":
		return func(r *run, v any, args []any, named *Dict) any { return r.json(v, args, named) }, true
	case "items":
		return func(r *run, v any, _ []any, _ *Dict) any {
			if d, ok := v.(*Dict); ok {
				return r.call(r.ofDict(d, "items"), nil, NewDict())
			}
			return &list{items: r.each(v)}
		}, true
	case "map":
		return func(r *run, v any, args []any, named *Dict) any {
			items := r.each(v)
			if a, ok := named.values["attribute"]; ok {
				out := r.attributes(items, r.show(a))
				if d, ok := named.values["default"]; ok {
					for i, x := range out {
						if _, missing := x.(undefined); missing {
							out[i] = d
						}
					}
				}
				return &list{items: out}
			}
			which := r.str(r.argument(args, 0))
			f, ok := filterNamed(which)
			if !ok {
				r.fail("there is no filter %q", which)
			}
			out := make([]any, len(items))
			for i, x := range items {
				out[i] = f(r, x, args[1:], named)
			}
			return &list{items: out}
		}, true
	case "select", "reject", "selectattr", "rejectattr":
		return func(r *run, v any, args []any, _ *Dict) any { return r.choose(v, args, name) }, true
	case "dictsort":
		return func(r *run, v any, _ []any, _ *Dict) any {
			d, ok := v.(*Dict)
			if !ok {
				r.fail("dictsort of %s, want a dictionary", r.typed(v))
			}
			keys := slices.Clone(d.keys)
			r.spend(len(keys))
			slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(strings.ToLower(a), strings.ToLower(b)) })
			out := &list{}
			for _, k := range keys {
				out.items = append(out.items, &list{[]any{k, d.values[k]}, true})
			}
			return out
		}, true
	case "sort":
		return func(r *run, v any, args []any, named *Dict) any {
			key := func(x any) any { return x }
			if a, ok := option(args, 2, named, "attribute", nil).(string); ok {
				key = func(x any) any { return r.attributes([]any{x}, a)[0] }
			}
			fold := !truth(option(args, 1, named, "case_sensitive", false))
			less := func(a, b any) bool {
				a, b = key(a), key(b)
				if s, ok := a.(string); ok && fold {
					a = strings.ToLower(s)
				}
				if s, ok := b.(string); ok && fold {
					b = strings.ToLower(s)
				}
				r.spend(1)
				return r.less(a, b)
			}
			down := truth(option(args, 0, named, "reverse", false))
			items := slices.Clone(r.each(v))
			slices.SortStableFunc(items, func(a, b any) int {
				if down {
					a, b = b, a
				}
				switch {
				case less(a, b):
					return -1
				case less(b, a):
					return 1
				}
				return 0
			})
			return &list{items: items}
		}, true
	case "reverse":
		return func(r *run, v any, _ []any, _ *Dict) any { return r.slice(v, [3]any{nil, nil, int64(-1)}) }, true
	case "unique":
		return func(r *run, v any, _ []any, _ *Dict) any {
			out := &list{}
			for _, x := range r.each(v) {
				if !r.contains(out, x) {
					out.items = append(out.items, x)
				}
			}
			return out
		}, true
	case "indent":
		return func(r *run, v any, args []any, named *Dict) any {
			by := r.repeat(" ", 4)
			switch w := option(args, 0, named, "width", int64(4)).(type) {
			case int64:
				by = r.repeat(" ", w)
			case string:
				by = w
			}
			lines := strings.Split(r.show(v), "\n")
			r.spend(len(lines) * (len(by)/16 + 1))
			for i := range lines {
				if (i > 0 || truth(option(args, 1, named, "first", false))) && (strings.TrimSpace(lines[i]) != "" || truth(option(args, 2, named, "blank", false))) {
					lines[i] = by + lines[i]
				}
			}
			return r.made(strings.Join(lines, "\n"))
		}, true
	case "int", "float":
		return func(r *run, v any, args []any, named *Dict) any {
			f, ok := numeric(v)
			if s, isText := v.(string); isText {
				g, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
				f, ok = g, err == nil
			}
			if name == "int" {
				if !ok || math.Abs(f) > 1<<53 {
					return option(args, 0, named, "default", int64(0))
				}
				return int64(f)
			}
			if !ok {
				return option(args, 0, named, "default", 0.0)
			}
			return f
		}, true
	case "abs":
		return func(r *run, v any, _ []any, _ *Dict) any {
			if r.less(v, int64(0)) {
				return r.arithmetic("-", int64(0), v)
			}
			return v
		}, true
	case "sum":
		return func(r *run, v any, _ []any, _ *Dict) any {
			total := any(int64(0))
			for _, x := range r.each(v) {
				total = r.arithmetic("+", total, x)
			}
			return total
		}, true
	case "min", "max":
		return func(r *run, v any, _ []any, _ *Dict) any {
			items := r.each(v)
			best := any(undefined{"the " + name + " of no items"})
			for i, x := range items {
				if i == 0 || name == "min" && r.less(x, best) || name == "max" && r.less(best, x) {
					best = x
				}
			}
			return best
		}, true
	}
	return nil, false
}

// attributes returns an attribute of each item; its name may be a path with dots.
func (r *run) attributes(items []any, path string) []any {
	out := make([]any, len(items))
	for i, x := range items {
		for part := range strings.SplitSeq(path, ".") {
			if n, err := strconv.ParseInt(part, 10, 64); err == nil {
				x = r.item(x, n)
			} else {
				x = r.item(x, part)
			}
			r.spend(1)
		}
		out[i] = x
	}
	return out
}

// choose is the filters select, reject, selectattr and rejectattr.
func (r *run) choose(v any, args []any, name string) any {
	items := r.each(v)
	seen := items
	if strings.HasSuffix(name, "attr") {
		seen = r.attributes(items, r.str(r.argument(args, 0)))
		args = args[1:]
	}
	holds := func(_ *run, v any, _ []any) bool { return truth(v) }
	if len(args) > 0 {
		which := r.str(args[0])
		t, ok := testNamed(which)
		if !ok {
			r.fail("there is no test %q", which)
		}
		holds, args = t, args[1:]
	}
	out := &list{}
	for i, x := range items {
		if r.spend(1); holds(r, seen[i], args) != strings.HasPrefix(name, "reject") {
			out.items = append(out.items, x)
		}
	}
	return out
}

// testNamed returns a test, what stands behind "is".
func testNamed(name string) (func(r *run, v any, args []any) bool, bool) {
	kind := func(f func(v any) bool) (func(*run, any, []any) bool, bool) {
		return func(_ *run, v any, _ []any) bool { return f(v) }, true
	}
	with := func(op string) (func(*run, any, []any) bool, bool) {
		return func(r *run, v any, args []any) bool { return r.compare(op, v, r.argument(args, 0)) }, true
	}
	switch name {
	case "defined":
		return kind(func(v any) bool { _, no := v.(undefined); return !no })
	case "undefined":
		return kind(func(v any) bool { _, yes := v.(undefined); return yes })
	case "none":
		return kind(func(v any) bool { return v == nil })
	case "boolean":
		return kind(func(v any) bool { _, yes := v.(bool); return yes })
	case "true":
		return kind(func(v any) bool { return v == true })
	case "false":
		return kind(func(v any) bool { return v == false })
	case "string":
		return kind(func(v any) bool { _, yes := v.(string); return yes })
	case "integer":
		return kind(func(v any) bool { _, yes := v.(int64); return yes })
	case "float":
		return kind(func(v any) bool { _, yes := v.(float64); return yes })
	case "number":
		return kind(func(v any) bool { _, yes := numeric(v); return yes })
	case "mapping":
		return kind(func(v any) bool { _, yes := v.(*Dict); return yes })
	case "callable":
		return kind(func(v any) bool { _, yes := v.(callable); return yes })
	case "iterable", "sequence":
		return kind(func(v any) bool {
			switch v.(type) {
			case string, *list, *Dict, undefined:
				return true
			}
			return false
		})
	case "lower", "upper":
		return kind(func(v any) bool {
			s, _ := v.(string)
			return s != strings.ToUpper(s) && s == strings.ToLower(s) && name == "lower" || s != strings.ToLower(s) && s == strings.ToUpper(s) && name == "upper"
		})
	case "odd", "even", "divisibleby":
		return func(r *run, v any, args []any) bool {
			by := any(int64(2))
			if name == "divisibleby" {
				by = r.argument(args, 0)
			}
			return r.equal(r.arithmetic("%", v, by), int64(0), 0) != (name == "odd")
		}, true
	case "equalto", "eq", "==", "sameas":
		return with("==")
	case "ne", "!=":
		return with("!=")
	case "lt", "lessthan", "<":
		return with("<")
	case "le", "<=":
		return with("<=")
	case "gt", "greaterthan", ">":
		return with(">")
	case "ge", ">=":
		return with(">=")
	case "in":
		return with("in")
	}
	return nil, false
}

// globalNamed returns a function that every template has.
func globalNamed(name string) (callable, bool) {
	switch name {
	case "range":
		return func(r *run, args []any, _ *Dict) any {
			at := []int64{0, 0, 1}
			for i := range args {
				n, ok := args[i].(int64)
				if !ok || i > 2 {
					r.fail("range: want one to three numbers")
				}
				at[i] = n
			}
			if len(args) == 1 {
				at[0], at[1] = 0, at[0]
			}
			if at[2] == 0 || len(args) == 0 {
				r.fail("range: want a start, an end and a step that is not 0")
			}
			out := &list{}
			for i := at[0]; at[2] > 0 && i < at[1] || at[2] < 0 && i > at[1]; i += at[2] {
				r.spend(4)
				out.items = append(out.items, i)
			}
			return out
		}, true
	case "namespace", "dict":
		return func(r *run, args []any, named *Dict) any {
			d := &Dict{values: map[string]any{}, space: name == "namespace"}
			if len(args) > 0 {
				from, ok := args[0].(*Dict)
				if !ok {
					r.fail("%s of %s, want a dictionary", name, r.typed(args[0]))
				}
				for _, k := range from.keys {
					d.Set(k, from.values[k])
				}
			}
			for _, k := range named.keys {
				d.Set(k, named.values[k])
			}
			return d
		}, true
	case "raise_exception":
		return func(r *run, args []any, _ *Dict) any {
			r.fail("%s", r.show(r.argument(args, 0)))
			return nil
		}, true
	case "strftime_now":
		return func(r *run, args []any, _ *Dict) any { return r.date(r.str(r.argument(args, 0))) }, true
	}
	return nil, false
}
