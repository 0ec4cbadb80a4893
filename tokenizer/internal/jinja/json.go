package jinja

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"
)

// json implements the filter tojson as transformers defines it: Python's json.dumps, without escaping for HTML.
func (r *run) json(v any, args []any, named *Dict) string {
	w := &jsonWriter{r: r, comma: ", ", colon: ": ", ascii: truth(option(args, 0, named, "ensure_ascii", false)), sorted: truth(option(args, 3, named, "sort_keys", false))}
	switch n := option(args, 1, named, "indent", nil).(type) {
	case bool, int64:
		i, _ := index(n)
		w.lines, w.by, w.comma = true, r.repeat(" ", i), ","
	case string:
		w.lines, w.by, w.comma = true, n, ","
	}
	if s, ok := option(args, 2, named, "separators", nil).(*list); ok && len(s.items) == 2 {
		w.comma, w.colon = r.str(s.items[0]), r.str(s.items[1])
	}
	w.value(v, 0)
	return w.out.String()
}

type jsonWriter struct {
	r             *run
	out           strings.Builder
	comma, colon  string
	by            string // indentation per level
	lines         bool
	ascii, sorted bool
}

func (w *jsonWriter) value(v any, depth int) {
	if depth > maxDepth {
		w.r.fail("tojson: a value contains others deeper than %d", maxDepth)
	}
	switch v := v.(type) {
	case nil, bool, int64, *big.Int, float64:
		w.write(w.r.jsonScalar(v))
		return
	case string, markup:
		w.text(w.r.show(v))
		return
	case *list:
		if v.view != "" {
			break
		}
		w.group("[", "]", len(v.items), depth, func(i int) { w.value(v.items[i], depth+1) })
		return
	case *Dict:
		keys := v.keys
		if w.sorted {
			keys = slices.Clone(keys)
			slices.SortStableFunc(keys, func(a, b any) int { return w.r.comparison(a, b) })
		}
		w.group("{", "}", len(keys), depth, func(i int) {
			switch k := keys[i].(type) {
			case string, markup:
				w.text(w.r.show(k))
			case nil, bool, int64, *big.Int, float64:
				w.text(w.r.jsonScalar(k))
			default:
				w.r.fail("tojson: %s is the key of a dictionary, want a string or a number", w.r.typed(k))
			}
			w.write(w.colon)
			w.value(v.at(keys[i]), depth+1)
		})
		return
	}
	w.r.fail("tojson of %s, want a value", w.r.typed(v))
}

// jsonScalar returns a number, a boolean or null.
func (r *run) jsonScalar(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return map[bool]string{true: "true", false: "false"}[v]
	case float64:
		switch {
		case math.IsNaN(v):
			return "NaN"
		case math.IsInf(v, 1):
			return "Infinity"
		case math.IsInf(v, -1):
			return "-Infinity"
		}
	}
	return r.repr(v, 0)
}

func (w *jsonWriter) write(s string) { w.r.write(&w.out, s) }

func (w *jsonWriter) group(open, shut string, n, depth int, item func(i int)) {
	w.write(open)
	line := func(depth int) {
		if w.lines {
			w.write("\n" + w.r.repeat(w.by, depth))
		}
	}
	for i := range n {
		if i > 0 {
			w.write(w.comma)
		}
		line(depth + 1)
		item(i)
	}
	if n > 0 {
		line(depth)
	}
	w.write(shut)
}

// text writes a string with the escapes of json.dumps.
func (w *jsonWriter) text(s string) {
	out := append(make([]byte, 0, len(s)+2), '"')
	for _, c := range s {
		short := strings.IndexRune("\"\\\n\r\t\b\f", c)
		switch {
		case short >= 0:
			out = append(out, '\\', `"\nrtbf`[short])
		case c < 0x20 || w.ascii && c >= 0x7f && c < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, c)
		case w.ascii && c >= 0x10000:
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+(c-0x10000)>>10, 0xdc00+(c-0x10000)&0x3ff)
		default:
			out = utf8.AppendRune(out, c)
		}
	}
	w.write(string(append(out, '"')))
}
