package jinja

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gomoe/gomoe/internal/quoted"
)

// Values are nil, bool, int64, *big.Int, float64, string, markup, *list, *Dict, undefined, callable and *object. An
// integer is an int64 if it fits.
type (
	// list is a Python list or tuple, or an iterable returned by a function.
	list struct {
		items []any
		tuple bool
		view  string   // Python's name of an iterable, "" for a list or a tuple
		names []string // names of the items in a named tuple
	}
	// markup is text that is already escaped for HTML.
	markup string
	// undefined is the value of an unknown name or attribute.
	undefined struct{ name string }
	callable  func(r *run, args []any, named *Dict) any
	// object has attributes and may be callable.
	object struct {
		attributes func(name string) any // returns nil for an unknown attribute
		call       callable
		text       func() string // nil means the text of a function
	}
)

// generator is the view of iterables that cannot be indexed, and that are true even if empty.
const generator = "generator"

// maxDigits is the maximum number of digits of an integer in a text, as in Python.
const maxDigits = 4300

// Dict is a dictionary preserving the order of its keys, like Python's.
type Dict struct {
	keys   []any
	values map[any]any // by hash
	space  bool        // a namespace with assignable attributes
}

// NewDict returns an empty dictionary.
func NewDict() *Dict { return &Dict{values: map[any]any{}} }

// Set sets the value of a key. Values are as returned by [Decode].
func (d *Dict) Set(key string, value any) { d.put(key, key, value) }

func (d *Dict) put(key, hash, value any) {
	if _, ok := d.values[hash]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[hash] = value
}

// Get returns the value of a key, and whether there is one.
func (d *Dict) Get(key string) (any, bool) {
	v, ok := d.values[key]
	return v, ok
}

// at returns the value of an existing key.
func (d *Dict) at(key any) any {
	h, _ := hash(key)
	return d.values[h]
}

// Filter returns a copy with the members accepted by keep. All keys must be strings.
func (d *Dict) Filter(keep func(key string, value any) bool) *Dict {
	out := NewDict()
	for _, k := range d.keys {
		if s, ok := k.(string); ok && keep(s, d.values[s]) {
			out.Set(s, d.values[s])
		}
	}
	return out
}

// TrueKeys returns the keys of values that a condition takes for true: not null, false, 0 or empty. All keys must be
// strings.
func (d *Dict) TrueKeys() (keys []string) {
	for _, k := range d.keys {
		if s, ok := k.(string); ok && truth(d.values[s]) {
			keys = append(keys, s)
		}
	}
	return keys
}

// Update sets all members of o.
func (d *Dict) Update(o *Dict) {
	for _, k := range o.keys {
		h, _ := hash(k)
		d.put(k, h, o.values[h])
	}
}

// maxKey is the maximum number of values in a tuple used as a key, including nested tuples.
const maxKey = 1000

// hash returns a comparable value that is equal for equal keys, and whether a value can be a key.
func hash(v any) (any, bool) {
	left := maxKey
	return hashed(v, &left)
}

func hashed(v any, left *int) (any, bool) {
	type named struct{ kind, text string }
	if *left--; *left < 0 {
		return nil, false
	}
	switch v := v.(type) {
	case string:
		return v, true
	case markup:
		return string(v), true
	case nil:
		return named{"none", ""}, true
	case bool:
		return int64(boolInt(v)), true
	case int64:
		return v, true
	case *big.Int:
		return named{"integer", v.String()}, true
	case float64:
		if i, ok := whole(v); ok {
			return hashed(i, left)
		}
		return v, true
	case *list:
		if !v.tuple {
			return nil, false
		}
		var all strings.Builder
		for _, x := range v.items {
			h, ok := hashed(x, left)
			if !ok {
				return nil, false
			}
			text := fmt.Sprint(h)
			fmt.Fprintf(&all, "%T %d %s,", h, len(text), text)
		}
		return named{"tuple", all.String()}, true
	}
	return nil, false
}

// NewList returns a list.
func NewList(items ...any) any { return &list{items: items} }

func tuple(items ...any) *list { return &list{items: items, tuple: true} }

// Items returns the items of a list, and whether v is a list.
func Items(v any) ([]any, bool) {
	l, ok := v.(*list)
	if !ok {
		return nil, false
	}
	return l.items, true
}

// JSON formats a value like Python's json.dumps, without ASCII escapes.
func JSON(v any) (text string, err error) {
	defer caught(&err)
	r := &run{budget: maxBudget}
	return r.json(v, nil, NewDict()), nil
}

// truth implements Python's bool.
func truth(v any) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case markup:
		return v != ""
	case *list:
		return len(v.items) > 0 || v.view == generator
	case *Dict:
		return v.space || len(v.keys) > 0
	}
	return true
}

// show implements Python's str.
func (r *run) show(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case markup:
		return string(v)
	case undefined:
		return ""
	}
	return r.repr(v, 0)
}

// repr implements Python's repr.
func (r *run) repr(v any, depth int) string {
	if r.spend(1); depth > maxDepth {
		r.fail("a value contains others deeper than %d", maxDepth)
	}
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int64:
		return strconv.FormatInt(v, 10)
	case *big.Int:
		return r.digits(v)
	case float64:
		return float(v)
	case string:
		return r.made(quote(v, false))
	case markup:
		return r.made("Markup(" + quote(string(v), false) + ")")
	case *list:
		parts := make([]string, len(v.items))
		for i, x := range v.items {
			parts[i] = r.repr(x, depth+1)
		}
		s := strings.Join(parts, ", ")
		switch {
		case strings.HasPrefix(v.view, "range("):
			return v.view
		case v.view != "" && v.view != generator:
			return r.made(v.view + "([" + s + "])")
		case v.tuple && len(parts) == 1:
			return r.made("(" + s + ",)")
		case v.tuple:
			return r.made("(" + s + ")")
		}
		return r.made("[" + s + "]")
	case *Dict:
		parts := make([]string, len(v.keys))
		for i, k := range v.keys {
			parts[i] = r.repr(k, depth+1) + ": " + r.repr(v.at(k), depth+1)
		}
		return r.made("{" + strings.Join(parts, ", ") + "}")
	case undefined:
		return "Undefined"
	case *object:
		if v.text != nil {
			return v.text()
		}
	}
	return "<function>"
}

// digits formats an integer in decimal.
func (r *run) digits(v *big.Int) string {
	r.spend(v.BitLen() / 16)
	s := v.String()
	if len(s) > maxDigits {
		r.fail("an integer of %d digits, want at most %d in a text", len(s), maxDigits)
	}
	return s
}

// float formats a number as Python does.
func float(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if a := math.Abs(f); f != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// quote implements Python's repr of a string, or its ascii.
func quote(s string, ascii bool) string {
	mark := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		mark = '"'
	}
	out := []byte{mark}
	for _, r := range s {
		switch {
		case r == rune(mark) || r == '\\':
			out = append(out, '\\', byte(r))
		case r == '\n':
			out = append(out, `\n`...)
		case r == '\r':
			out = append(out, `\r`...)
		case r == '\t':
			out = append(out, `\t`...)
		case unicode.IsPrint(r) && (r < 0x80 || !ascii):
			out = append(out, string(r)...)
		case r < 0x100:
			out = fmt.Appendf(out, `\x%02x`, r)
		case r < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = fmt.Appendf(out, `\U%08x`, r)
		}
	}
	return string(append(out, mark))
}

// equal implements Python's ==.
func (r *run) equal(a, b any, depth int) bool {
	if r.spend(1); depth > maxDepth {
		r.fail("values contain others deeper than %d", maxDepth)
	}
	if isNumber(a) {
		return isNumber(b) && order(a, b) == 0
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case string, markup:
		return isText(b) && r.show(a) == r.show(b)
	case undefined:
		_, ok := b.(undefined)
		return ok
	case *list:
		b, ok := b.(*list)
		return ok && (a == b || a.tuple == b.tuple && (a.view == generator) == (b.view == generator) &&
			slices.EqualFunc(a.items, b.items, func(x, y any) bool { return r.equal(x, y, depth+1) }))
	case *Dict:
		b, ok := b.(*Dict)
		if !ok || len(a.keys) != len(b.keys) {
			return false
		}
		for _, k := range a.keys {
			h, _ := hash(k)
			v, ok := b.values[h]
			if !ok || !r.equal(a.values[h], v, depth+1) {
				return false
			}
		}
		return true
	}
	return false
}

func isText(v any) bool {
	switch v.(type) {
	case string, markup:
		return true
	}
	return false
}

// less implements Python's <.
func (r *run) less(a, b any) bool {
	switch {
	case isNumber(a) && isNumber(b):
		return order(a, b) < 0
	case isText(a) && isText(b):
		return r.show(a) < r.show(b)
	}
	x, ok1 := a.(*list)
	y, ok2 := b.(*list)
	if !ok1 || !ok2 || x.tuple != y.tuple || x.view != "" || y.view != "" {
		r.fail("%s and %s have no order", r.typed(a), r.typed(b))
	}
	if r.depth++; r.depth > maxDepth {
		r.fail("values contain others deeper than %d", maxDepth)
	}
	defer func() { r.depth-- }()
	for i := range min(len(x.items), len(y.items)) {
		if !r.equal(x.items[i], y.items[i], 0) {
			return r.less(x.items[i], y.items[i])
		}
	}
	return len(x.items) < len(y.items)
}

func (r *run) typed(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "a boolean"
	case int64, *big.Int, float64:
		return "a number"
	case string, markup:
		return "a string"
	case *list:
		return "a list"
	case *Dict:
		return "a dictionary"
	case undefined:
		return "the undefined " + quoted.Text(v.name)
	}
	return "a function"
}

// each returns the elements that a loop iterates over: items, keys, or characters.
func (r *run) each(v any) []any {
	switch v := v.(type) {
	case *list:
		r.spend(len(v.items))
		return v.items
	case *Dict:
		r.spend(len(v.keys))
		return v.keys
	case string:
		r.spend(len(v))
		var out []any
		for _, c := range v {
			out = append(out, string(c))
		}
		return out
	case markup:
		return r.each(string(v))
	case undefined:
		return nil
	}
	r.fail("%s has no items to go over", r.typed(v))
	return nil
}
