package jinja

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// json is the filter tojson as transformers has it: Python's json.dumps, which
// escapes no characters for HTML.
func (r *run) json(v any, args []any, named *Dict) string {
	w := &jsonWriter{r: r, comma: ", ", colon: ": ", ascii: truth(option(args, 0, named, "ensure_ascii", false)), sorted: truth(option(args, 3, named, "sort_keys", false))}
	switch n := option(args, 1, named, "indent", nil).(type) {
	case int64:
		w.lines, w.by, w.comma = true, r.repeat(" ", n), ","
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
	by            string // what indents a line by one level
	lines         bool
	ascii, sorted bool
}

func (w *jsonWriter) value(v any, depth int) {
	if depth > maxDepth {
		w.r.fail("tojson: a value contains others deeper than %d", maxDepth)
	}
	switch v := v.(type) {
	case nil:
		w.write("null")
	case bool:
		w.write(map[bool]string{true: "true", false: "false"}[v])
	case int64, float64:
		w.write(w.r.repr(v, 0))
	case string:
		w.text(v)
	case *list:
		w.group("[", "]", len(v.items), depth, func(i int) { w.value(v.items[i], depth+1) })
	case *Dict:
		keys := v.keys
		if w.sorted {
			keys = slices.Sorted(slices.Values(keys))
		}
		w.group("{", "}", len(keys), depth, func(i int) {
			w.text(keys[i])
			w.write(w.colon)
			w.value(v.values[keys[i]], depth+1)
		})
	default:
		w.r.fail("tojson of %s, want a value", w.r.typed(v))
	}
}

func (w *jsonWriter) write(s string) { w.r.write(&w.out, s) }

func (w *jsonWriter) group(open, shut string, n, depth int, item func(i int)) {
	w.write(open)
	line := func(depth int) {
		if w.lines {
			w.write("\n" + w.r.repeat(w.by, int64(depth)))
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

func (w *jsonWriter) text(s string) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		w.r.fail("tojson: %v", err)
	}
	s = strings.TrimSuffix(b.String(), "\n")
	// Go escapes two separators of lines that Python does not.
	s = strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029", `\u007f`, "\x7f").Replace(s)
	if w.ascii {
		var out []byte
		for _, c := range s {
			switch {
			case c < utf8.RuneSelf:
				out = append(out, byte(c))
			case c < 0x10000:
				out = fmt.Appendf(out, `\u%04x`, c)
			default:
				out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+(c-0x10000)>>10, 0xdc00+(c-0x10000)&0x3ff)
			}
		}
		s = string(out)
	}
	w.write(s)
}

// format is the operator % of a string: %s, %d and %%.
func (r *run) format(s string, v any) string {
	args := []any{v}
	if l, ok := v.(*list); ok && l.tuple {
		args = l.items
	}
	var out strings.Builder
	for {
		i := strings.IndexByte(s, '%')
		if i < 0 || i+1 == len(s) {
			break
		}
		r.write(&out, s[:i])
		c := s[i+1]
		s = s[i+2:]
		if c == '%' {
			r.write(&out, "%")
			continue
		}
		if c != 's' && c != 'd' || len(args) == 0 {
			r.fail("a format with %%%c, want %%s or %%d and a value for each", c)
		}
		r.write(&out, r.show(args[0]))
		args = args[1:]
	}
	r.write(&out, s)
	return out.String()
}

// date is the time of the rendering in a format of C's strftime.
func (r *run) date(format string) string {
	layouts := map[byte]string{
		'd': "02", 'm': "01", 'Y': "2006", 'y': "06", 'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon", 'H': "15",
		'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'j': "002", 'Z': "MST", 'z': "-0700", 'F': "2006-01-02", 'T': "15:04:05",
	}
	var out strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			out.WriteByte(format[i])
			continue
		}
		i++
		bare := format[i] == '-' && i+1 < len(format)
		if bare {
			i++
		}
		layout, ok := layouts[format[i]]
		switch {
		case format[i] == '%':
			out.WriteByte('%')
		case !ok:
			r.fail("strftime_now: an unknown format %%%c", format[i])
		case bare:
			s := strings.TrimLeft(r.now.Format(layout), "0")
			if s == "" {
				s = "0"
			}
			out.WriteString(s)
		default:
			out.WriteString(r.now.Format(layout))
		}
	}
	return r.made(out.String())
}
