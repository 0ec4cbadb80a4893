package jinja

import (
	"html"
	"strings"
)

func escapeHTML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;").Replace(s)
}

// escaped returns a value as text escaped for HTML.
func (r *run) escaped(v any) markup {
	if m, ok := v.(markup); ok {
		return m
	}
	return markup(r.made(escapeHTML(r.show(v))))
}

// escapedAll escapes the arguments of a format string that is markup.
func (r *run) escapedAll(v any) any {
	switch v := v.(type) {
	case string:
		return r.escaped(v)
	case *list:
		if !v.tuple {
			break
		}
		out := tuple()
		for _, x := range v.items {
			out.items = append(out.items, r.escapedAll(x))
		}
		return out
	}
	return v
}

// together concatenates two values as text. The result is markup if either one is.
func (r *run) together(a, b any) any {
	_, m1 := a.(markup)
	_, m2 := b.(markup)
	if m1 || m2 {
		return markup(r.made(string(r.escaped(a) + r.escaped(b))))
	}
	return r.made(r.show(a) + r.show(b))
}

// printed returns the text that {{ }} writes for a value.
func (r *run) printed(v any) string {
	if r.escape {
		return string(r.escaped(v))
	}
	return r.show(v)
}

// captured returns the text written by a part as a value.
func (r *run) captured(b stmt, s *scope) any {
	text := r.capture(b, s)
	if r.escape {
		return markup(text)
	}
	return text
}

// stripTags removes comments and tags from a text, and separates its words by single spaces.
func stripTags(s string) string {
	for _, tag := range [][2]string{{"<!--", "-->"}, {"<", ">"}} {
		var out strings.Builder
		for {
			start := strings.Index(s, tag[0])
			if start < 0 {
				break
			}
			stop := strings.Index(s[start:], tag[1])
			if stop < 0 {
				break
			}
			out.WriteString(s[:start])
			s = s[start+stop+len(tag[1]):]
		}
		s = out.String() + s
	}
	return html.UnescapeString(strings.Join(strings.FieldsFunc(s, space), " "))
}
