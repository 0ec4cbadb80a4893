package jinja

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gomoe/gomoe/internal/quoted"
)

// comparison compares two values for sorting.
func (r *run) comparison(a, b any) int {
	r.spend(1)
	switch {
	case r.less(a, b):
		return -1
	case r.less(b, a):
		return 1
	}
	return 0
}

// keyed returns a function computing the sort key of an item: attributes of it, in lower case unless case counts.
func (r *run) keyed(attribute any, caseCounts bool) func(any) any {
	fold := func(x any) any {
		if isText(x) && !caseCounts {
			return lower(r.show(x))
		}
		return x
	}
	if attribute == nil {
		return fold
	}
	if s, ok := attribute.(string); ok && strings.Contains(s, ",") {
		return func(x any) any {
			out := &list{}
			for part := range strings.SplitSeq(s, ",") {
				out.items = append(out.items, fold(r.path(x, part)))
			}
			return out
		}
	}
	return func(x any) any { return fold(r.path(x, attribute)) }
}

// path returns an attribute of an item: a number, or names and numbers separated by dots. usual is the default for
// items without it.
func (r *run) path(x, path any, usual ...any) any {
	s, ok := path.(string)
	if !ok {
		return r.item(x, path)
	}
	for part := range strings.SplitSeq(s, ".") {
		r.spend(1)
		if n, err := strconv.ParseInt(part, 10, 64); err == nil {
			x = r.item(x, n)
		} else {
			x = r.item(x, part)
		}
		if _, missing := x.(undefined); missing && len(usual) > 0 {
			return usual[0]
		}
	}
	return x
}

// listFilter returns a filter of lists.
func listFilter(name string) filter {
	switch name {
	case "length", "count":
		return func(r *run, v any, _ []any, _ *Dict) any {
			switch v := v.(type) {
			case string, markup:
				return int64(utf8.RuneCountInString(r.show(v)))
			case *list:
				if v.view != generator {
					return int64(len(v.items))
				}
			case *Dict:
				return int64(len(v.keys))
			case undefined:
				return int64(0)
			}
			r.fail("%s has no length", r.typed(v))
			return nil
		}
	case "join":
		return func(r *run, v any, args []any, named *Dict) any {
			items := r.each(v)
			if a := option(args, 1, named, "attribute", nil); a != nil {
				items = r.mapped(items, func(x any) any { return r.path(x, a) })
			}
			return r.join(items, r.show(option(args, 0, named, "d", "")))
		}
	case "list":
		return func(r *run, v any, _ []any, _ *Dict) any { return &list{items: r.each(v)} }
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
		}
	case "items":
		return func(r *run, v any, _ []any, _ *Dict) any {
			switch v := v.(type) {
			case *Dict:
				return &list{items: r.items(v), view: generator}
			case undefined:
				return &list{view: generator}
			}
			r.fail("items of %s, want a dictionary", r.typed(v))
			return nil
		}
	case "map":
		return mapFilter
	case "select", "reject", "selectattr", "rejectattr":
		return func(r *run, v any, args []any, _ *Dict) any { return r.choose(v, args, name) }
	case "dictsort":
		return func(r *run, v any, args []any, named *Dict) any {
			d, ok := v.(*Dict)
			if !ok {
				r.fail("dictsort of %s, want a dictionary", r.typed(v))
			}
			by := map[any]int64{"key": 0, "value": 1}
			at, ok := by[option(args, 1, named, "by", "key")]
			if !ok {
				r.fail("dictsort: by is neither key nor value")
			}
			return r.sorted(r.items(d), r.keyed(at, truth(option(args, 0, named, "case_sensitive", false))), truth(option(args, 2, named, "reverse", false)))
		}
	case "sort":
		return func(r *run, v any, args []any, named *Dict) any {
			key := r.keyed(option(args, 2, named, "attribute", nil), truth(option(args, 1, named, "case_sensitive", false)))
			return r.sorted(r.each(v), key, truth(option(args, 0, named, "reverse", false)))
		}
	case "groupby":
		return groupFilter
	case "reverse":
		return func(r *run, v any, _ []any, _ *Dict) any {
			if isText(v) {
				return r.slice(v, [3]any{nil, nil, int64(-1)})
			}
			items := slices.Clone(r.each(v))
			slices.Reverse(items)
			return &list{items: items, view: generator}
		}
	case "unique":
		return func(r *run, v any, args []any, named *Dict) any {
			key := r.keyed(option(args, 1, named, "attribute", nil), truth(option(args, 0, named, "case_sensitive", false)))
			out, seen := &list{view: generator}, map[any]bool{}
			for _, x := range r.each(v) {
				k := key(x)
				if _, missing := k.(undefined); missing {
					k = tuple("undefined", "undefined") // all of them are equal
				}
				if h := r.key(k); !seen[h] {
					seen[h] = true
					out.items = append(out.items, x)
				}
			}
			return out
		}
	case "sum":
		return func(r *run, v any, args []any, named *Dict) any {
			total := option(args, 1, named, "start", int64(0))
			attribute := option(args, 0, named, "attribute", nil)
			for _, x := range r.each(v) {
				if attribute != nil {
					x = r.path(x, attribute)
				}
				total = r.arithmetic("+", total, x)
			}
			return total
		}
	case "min", "max":
		return func(r *run, v any, args []any, named *Dict) any {
			key := r.keyed(option(args, 1, named, "attribute", nil), truth(option(args, 0, named, "case_sensitive", false)))
			best := any(undefined{"the " + name + " of no items"})
			for i, x := range r.each(v) {
				if i == 0 || name == "min" && r.less(key(x), key(best)) || name == "max" && r.less(key(best), key(x)) {
					best = x
				}
			}
			return best
		}
	case "batch":
		return func(r *run, v any, args []any, named *Dict) any {
			n := r.number(args, 0, named, "linecount", 0)
			if n < 1 {
				r.fail("batch of %d items, want at least 1", n)
			}
			out := &list{view: generator}
			for part := range slices.Chunk(r.each(v), n) {
				out.items = append(out.items, &list{items: r.filled(slices.Clone(part), n, option(args, 1, named, "fill_with", nil))})
			}
			return out
		}
	case "slice":
		return func(r *run, v any, args []any, named *Dict) any {
			n, items, fill := r.number(args, 0, named, "slices", 0), r.each(v), option(args, 1, named, "fill_with", nil)
			if n < 1 {
				r.fail("slice into %d parts, want at least 1", n)
			}
			r.spend(n)
			out := &list{view: generator}
			size, more, at := len(items)/n, len(items)%n, 0
			for i := range n {
				to := at + size + boolInt(i < more)
				part := slices.Clone(items[at:to])
				if i >= more && more > 0 {
					part = r.filled(part, size+1, fill)
				}
				if i >= more && more == 0 && fill != nil {
					part = append(part, fill) // as in Jinja
				}
				out.items = append(out.items, &list{items: part})
				at = to
			}
			return out
		}
	}
	return nil
}

// filled appends with, if it is not nil, until there are n items.
func (r *run) filled(items []any, n int, with any) []any {
	for with != nil && len(items) < n {
		r.spend(1)
		items = append(items, with)
	}
	return items
}

func (r *run) mapped(items []any, f func(any) any) []any {
	out := make([]any, len(items))
	for i, x := range items {
		out[i] = f(x)
	}
	return out
}

// sorted returns a list sorted by key.
func (r *run) sorted(items []any, key func(any) any, down bool) any {
	type pair struct{ key, value any }
	pairs := make([]pair, len(items))
	for i, x := range items {
		pairs[i] = pair{key(x), x}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int {
		if down {
			return r.comparison(b.key, a.key)
		}
		return r.comparison(a.key, b.key)
	})
	out := &list{items: make([]any, len(items))}
	for i, p := range pairs {
		out.items[i] = p.value
	}
	return out
}

func mapFilter(r *run, v any, args []any, named *Dict) any {
	if !truth(v) { // null too, without evaluating the arguments
		return &list{view: generator}
	}
	items := r.each(v)
	if a, ok := named.values["attribute"]; ok && len(args) == 0 {
		var usual []any
		if v, ok := named.values["default"]; ok {
			usual = []any{v}
		}
		return &list{items: r.mapped(items, func(x any) any { return r.path(x, a, usual...) }), view: generator}
	}
	which := r.str(r.argument(args, 0))
	f, ok := filterNamed(which)
	if !ok {
		r.fail("there is no filter %s", quoted.Text(which))
	}
	return &list{items: r.mapped(items, func(x any) any { return f(r, x, args[1:], named) }), view: generator}
}

func groupFilter(r *run, v any, args []any, named *Dict) any {
	attribute := r.must(args, 0, named, "attribute")
	var usual []any
	if v := option(args, 1, named, "default", nil); v != nil {
		usual = []any{v}
	}
	caseCounts := truth(option(args, 2, named, "case_sensitive", false))
	of := func(x any) any { return r.path(x, attribute, usual...) }
	fold := r.keyed(nil, caseCounts)
	key := func(x any) any { return fold(of(x)) }
	out := &list{}
	var last any
	for _, x := range r.sorted(r.each(v), key, false).(*list).items {
		if k := key(x); len(out.items) == 0 || !r.equal(k, last, 0) {
			last = k
			out.items = append(out.items, &list{items: []any{of(x), &list{}}, tuple: true, names: []string{"grouper", "list"}})
		}
		group := out.items[len(out.items)-1].(*list).items[1].(*list)
		group.items = append(group.items, x)
	}
	return out
}

// choose implements the filters select, reject, selectattr and rejectattr.
func (r *run) choose(v any, args []any, name string) any {
	if !truth(v) { // as for map
		return &list{view: generator}
	}
	items := r.each(v)
	seen := items
	if strings.HasSuffix(name, "attr") {
		attribute := r.argument(args, 0)
		seen = r.mapped(items, func(x any) any { return r.path(x, attribute) })
		args = args[1:]
	}
	holds := func(_ *run, v any, _ []any) bool { return truth(v) }
	if len(args) > 0 {
		which := r.str(args[0])
		t, ok := testNamed(which)
		if !ok {
			r.fail("there is no test %s", quoted.Text(which))
		}
		holds, args = t, args[1:]
	}
	out := &list{view: generator}
	for i, x := range items {
		if r.spend(1); holds(r, seen[i], args) != strings.HasPrefix(name, "reject") {
			out.items = append(out.items, x)
		}
	}
	return out
}

func wordRune(c rune) bool { return c == '_' || unicode.IsLetter(c) || unicode.IsNumber(c) }

// wrap implements the filter wordwrap: Python's textwrap of every line, keeping white space within lines and
// dropping it at their ends.
func (r *run) wrap(s string, width int, long, hyphens bool, end string) string {
	if width < 1 {
		r.fail("wordwrap to %d characters, want at least 1", width)
	}
	var out []any
	for _, line := range r.lines(s, false).(*list).items {
		r.spend(len(line.(string)) / 4)
		words := chunks(line.(string), hyphens)
		var lines []any
		for len(words) > 0 {
			now, n := "", 0
			if strings.TrimFunc(words[0], space) == "" && len(lines) > 0 {
				words = words[1:]
			}
			for len(words) > 0 && n+utf8.RuneCountInString(words[0]) <= width {
				r.spend(1 + len(now)/16)
				now, n, words = now+words[0], n+utf8.RuneCountInString(words[0]), words[1:]
			}
			if len(words) > 0 && utf8.RuneCountInString(words[0]) > width {
				switch room := width - n; {
				case long:
					head := firstRunes(words[0], room)
					if i := strings.LastIndex(head, "-"); hyphens && utf8.RuneCountInString(words[0]) > room && i > 0 && strings.Trim(head[:i], "-") != "" {
						head = head[:i+1]
					}
					now, words[0] = now+head, words[0][len(head):]
				case now == "":
					now, words = words[0], words[1:]
				}
			}
			now = strings.TrimRightFunc(now, space)
			if now != "" {
				lines = append(lines, now)
			}
		}
		out = append(out, r.join(lines, end))
	}
	return r.join(out, end)
}

// chunks splits a line into words and the white space between them; words are also split after hyphens between
// letters.
func chunks(s string, hyphens bool) []string {
	var out []string
	start, before := 0, false
	runes := []rune(s)
	for i, c := range runes {
		now := space(c)
		after := hyphens && i >= 2 && runes[i-1] == '-' && unicode.IsLetter(runes[i-2]) && unicode.IsLetter(c) && i-2 >= start
		if i > start && (now != before || after) {
			out = append(out, string(runes[start:i]))
			start = i
		}
		before = now
	}
	if start < len(runes) {
		out = append(out, string(runes[start:]))
	}
	return out
}
