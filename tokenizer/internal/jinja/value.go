package jinja

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Values are nil, bool, int64, float64, string, *list, *Dict, undefined and callable.
type (
	list struct {
		items []any
		tuple bool
	}
	// undefined is what a name or an attribute that is not there gives.
	undefined struct{ name string }
	callable  func(r *run, args []any, named *Dict) any
)

// Dict is a dictionary that keeps the order of its keys, as Python's does.
type Dict struct {
	keys   []string
	values map[string]any
	space  bool // a namespace, whose attributes can be set
}

// NewDict returns an empty dictionary.
func NewDict() *Dict { return &Dict{values: map[string]any{}} }

// Set sets the value of a key. Values are those that [Decode] returns.
func (d *Dict) Set(key string, value any) {
	if _, ok := d.values[key]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[key] = value
}

// Get returns the value of a key, and whether there is one.
func (d *Dict) Get(key string) (any, bool) {
	v, ok := d.values[key]
	return v, ok
}

// Filter returns a copy with the members that keep accepts.
func (d *Dict) Filter(keep func(key string, value any) bool) *Dict {
	out := NewDict()
	for _, k := range d.keys {
		if keep(k, d.values[k]) {
			out.Set(k, d.values[k])
		}
	}
	return out
}

// NewList returns a list.
func NewList(items ...any) any { return &list{items: items} }

// Items returns the items of a list, and whether v is one.
func Items(v any) ([]any, bool) {
	l, ok := v.(*list)
	if !ok {
		return nil, false
	}
	return l.items, true
}

// JSON returns the text of a value as Python's json.dumps writes it, without ASCII escapes.
func JSON(v any) (text string, err error) {
	defer caught(&err)
	r := &run{budget: maxBudget}
	return r.json(v, nil, NewDict()), nil
}

// Update sets all that o has.
func (d *Dict) Update(o *Dict) {
	for _, k := range o.keys {
		d.Set(k, o.values[k])
	}
}

// Decode returns the value of a JSON text, with the order of its keys.
func Decode(data []byte) (any, error) {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	v, err := decode(d, 0)
	if err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("more than one JSON value")
	}
	return v, nil
}

func decode(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("JSON nests deeper than %d", maxDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			out := &list{}
			for d.More() {
				v, err := decode(d, depth+1)
				if err != nil {
					return nil, err
				}
				out.items = append(out.items, v)
			}
			_, err := d.Token()
			return out, err
		}
		out := NewDict()
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := decode(d, depth+1)
			if err != nil {
				return nil, err
			}
			out.Set(k.(string), v)
		}
		_, err := d.Token()
		return out, err
	case json.Number:
		if n, err := t.Int64(); err == nil {
			return n, nil
		}
		return t.Float64()
	}
	return t, nil
}

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
	case *list:
		return len(v.items) > 0
	case *Dict:
		return v.space || len(v.keys) > 0
	}
	return true
}

// show is Python's str.
func (r *run) show(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case undefined:
		return ""
	}
	return r.repr(v, 0)
}

// repr is Python's repr.
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
	case float64:
		return float(v)
	case string:
		return r.made(quote(v))
	case *list:
		parts := make([]string, len(v.items))
		for i, x := range v.items {
			parts[i] = r.repr(x, depth+1)
		}
		s := strings.Join(parts, ", ")
		switch {
		case v.tuple && len(parts) == 1:
			return r.made("(" + s + ",)")
		case v.tuple:
			return r.made("(" + s + ")")
		}
		return r.made("[" + s + "]")
	case *Dict:
		parts := make([]string, len(v.keys))
		for i, k := range v.keys {
			parts[i] = quote(k) + ": " + r.repr(v.values[k], depth+1)
		}
		return r.made("{" + strings.Join(parts, ", ") + "}")
	case undefined:
		return "Undefined"
	}
	return "<function>"
}

// float is a number as Python writes it.
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

func quote(s string) string {
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
		case unicode.IsPrint(r):
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

// equal is Python's ==.
func (r *run) equal(a, b any, depth int) bool {
	if r.spend(1); depth > maxDepth {
		r.fail("values contain others deeper than %d", maxDepth)
	}
	if x, ok := numeric(a); ok {
		y, ok := numeric(b)
		return ok && x == y
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		b, ok := b.(string)
		return ok && a == b
	case undefined:
		_, ok := b.(undefined)
		return ok
	case *list:
		b, ok := b.(*list)
		return ok && a.tuple == b.tuple && slices.EqualFunc(a.items, b.items, func(x, y any) bool { return r.equal(x, y, depth+1) })
	case *Dict:
		b, ok := b.(*Dict)
		if !ok || len(a.keys) != len(b.keys) {
			return false
		}
		for _, k := range a.keys {
			v, ok := b.values[k]
			if !ok || !r.equal(a.values[k], v, depth+1) {
				return false
			}
		}
		return true
	}
	return false
}

// numeric returns a number, as Python has it: booleans are numbers, too.
func numeric(v any) (float64, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// less is Python's <.
func (r *run) less(a, b any) bool {
	x, ok1 := numeric(a)
	y, ok2 := numeric(b)
	if ok1 && ok2 {
		return x < y
	}
	s, ok1 := a.(string)
	t, ok2 := b.(string)
	if !ok1 || !ok2 {
		r.fail("%s and %s have no order", r.typed(a), r.typed(b))
	}
	return s < t
}

func (r *run) typed(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "a boolean"
	case int64, float64:
		return "a number"
	case string:
		return "a string"
	case *list:
		return "a list"
	case *Dict:
		return "a dictionary"
	case undefined:
		return strconv.Quote(v.name) + ", which is undefined,"
	}
	return "a function"
}

// each returns what a loop goes over: items, keys, or characters.
func (r *run) each(v any) []any {
	switch v := v.(type) {
	case *list:
		r.spend(len(v.items))
		return v.items
	case *Dict:
		r.spend(len(v.keys))
		out := make([]any, len(v.keys))
		for i, k := range v.keys {
			out[i] = k
		}
		return out
	case string:
		r.spend(len(v))
		var out []any
		for _, c := range v {
			out = append(out, string(c))
		}
		return out
	case undefined:
		return nil
	}
	r.fail("%s has no items to go over", r.typed(v))
	return nil
}
