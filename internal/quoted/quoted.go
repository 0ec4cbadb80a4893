// Package quoted writes text from outside, such as a field of a request or a name in a file, into errors.
package quoted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// most is the number of characters of a text that an error repeats. They identify the
// text; the rest would hide the mistake.
const most = 40

// mostOfName is the number of characters of a name that an error repeats. Names of
// tensors with their modules have up to a hundred.
const mostOfName = 128

// Text returns the first 40 characters of a text in quotes, as a Go string literal without control characters. An ellipsis follows
// the quotes of a longer text.
func Text[T ~string | ~[]byte](text T) string { return quote(text, most) }

// Name is Text for the first 128 characters: for names of tensors, parameters and files.
func Name[T ~string | ~[]byte](name T) string { return quote(name, mostOfName) }

func quote[T ~string | ~[]byte](text T, most int) string {
	head, cut := shorten(text, most)
	return strconv.Quote(head) + cut
}

// Plain is Text without quotes for a text that has no character to escape. It is for
// numbers, values of variables and paths, which are easier to copy without them.
func Plain[T ~string | ~[]byte](text T) string {
	head, cut := shorten(text, most)
	if q := strconv.Quote(head); q != `"`+head+`"` {
		return q + cut
	}
	return head + cut
}

// JSON returns the first 60 characters of a JSON value on one line in the form of Plain.
// Quotes of the value are not escaped again.
func JSON(value []byte) string {
	var line bytes.Buffer
	if json.Compact(&line, value) == nil {
		value = line.Bytes()
	}
	head, cut := shorten(value, 60)
	return escape(head) + cut
}

// shorten returns the first characters of a text, and an ellipsis if there are more.
func shorten[T ~string | ~[]byte](text T, most int) (head, cut string) {
	head = string(text[:min(len(text), most*utf8.UTFMax+1)])
	n := 0
	for i := range head {
		if n == most {
			return head[:i], "…"
		}
		n++
	}
	return head, ""
}

// Value returns a value of a JSON file as fmt.Sprint does, but an integer without an exponent:
// 10000000 instead of 1e+07.
func Value(v any) string { return fmt.Sprint(integers(v)) }

// integers replaces floats that are integers, also in lists and objects.
func integers(v any) any {
	switch v := v.(type) {
	case float64:
		if x := int64(v); float64(x) == v && math.Abs(v) < 1<<53 {
			return x
		}
	case []any:
		all := make([]any, len(v))
		for i, x := range v {
			all[i] = integers(x)
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, x := range v {
			all[name] = integers(x)
		}
		return all
	}
	return v
}

// Words returns the elements of a list with commas between, for the values that an error wants.
func Words[T any](list []T) string {
	var all []string
	for _, x := range list {
		all = append(all, fmt.Sprint(x))
	}
	return strings.Join(all, ", ")
}

// List returns the first texts of a list in the form of Text, and their number if there
// are more.
func List[T ~string](list []T) string {
	const most = 8
	s := "["
	for i, t := range list[:min(len(list), most)] {
		if i > 0 {
			s += ", "
		}
		s += Text(t)
	}
	if len(list) > most {
		s += fmt.Sprintf(" and %d more", len(list)-most)
	}
	return s + "]"
}

// longest is the number of bytes shown of a message. The mistake is at its beginning and
// its end.
const longest = 8 << 10

// Message returns the text of an error for a terminal. Control characters other than line
// ends and tabs, which may come from outside, are escaped, so that they do not reach the
// terminal, and the middle of a text of more than 8 KiB is left out.
func Message(text string) string { return message(text, longest) }

// Scoped returns the text of an error with positions in Go code, as graph.Pos prints them, replaced by their scopes, or
// left out if they have none. It is for users of a program who do not know its code.
func Scoped(text string) string {
	text = regexp.MustCompile(`[\w.-]+\.go:\d+ \(([^()]*)\)`).ReplaceAllString(text, "$1")
	return regexp.MustCompile(` \([\w.-]+\.go:\d+\)|[\w.-]+\.go:\d+: `).ReplaceAllString(text, "")
}

// cause is an error of another package.
type cause struct{ err error }

// Cause returns an error with the text of err in the form of Message, with at most 512
// bytes. It is for errors of packages repeating texts from outside unchanged, such as
// encoding/json and os. Cause of nil is nil.
func Cause(err error) error {
	if err == nil {
		return nil
	}
	return cause{err}
}

func (c cause) Error() string { return message(message(c.err.Error(), 512), 512) }
func (c cause) Unwrap() error { return c.err }

func message(text string, longest int) string {
	if cut := len(text) - longest; cut > 0 {
		head, tail := longest*3/4, len(text)-longest/4
		for head > 0 && !utf8.RuneStart(text[head]) {
			head--
		}
		for tail < len(text) && !utf8.RuneStart(text[tail]) {
			tail++
		}
		text = text[:head] + fmt.Sprintf(" … %d bytes left out … ", tail-head) + text[tail:]
	}
	return escape(text)
}

// escape escapes control characters other than the ends of lines and tabs.
func escape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == '\n' || r == '\t' || strconv.IsPrint(r) && (r != utf8.RuneError || n > 1) {
			b.WriteString(text[i : i+n])
		} else {
			q := strconv.Quote(text[i : i+n])
			b.WriteString(q[1 : len(q)-1])
		}
		i += n
	}
	return b.String()
}
