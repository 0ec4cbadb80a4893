// Package quoted writes text from outside, such as a field of a request or a name in a file, into errors.
package quoted

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// most is how many characters of a text an error repeats. They tell which one is meant; the rest would hide what is wrong with it.
const most = 40

// Text returns the first 40 characters of a text in quotes, as a Go string literal without control characters. An ellipsis follows
// the quotes of a longer text.
func Text[T ~string | ~[]byte](text T) string {
	head, cut := shorten(string(text[:min(len(text), most*utf8.UTFMax+1)]))
	return strconv.Quote(head) + cut
}

// Plain is Text without quotes for a text that has no character to escape. It is for a number, a variable's value or a path,
// which is easier to copy without them.
func Plain[T ~string | ~[]byte](text T) string {
	head, cut := shorten(string(text[:min(len(text), most*utf8.UTFMax+1)]))
	if q := strconv.Quote(head); q != `"`+head+`"` {
		return q + cut
	}
	return head + cut
}

// Short returns the first 40 characters of a text as they are, for places that are not shown to people as they stand.
func Short[T ~string | ~[]byte](text T) string {
	head, cut := shorten(string(text[:min(len(text), most*utf8.UTFMax+1)]))
	return head + cut
}

// shorten returns the first characters of a text, and an ellipsis if there are more.
func shorten(text string) (head, cut string) {
	n := 0
	for i := range text {
		if n == most {
			return text[:i], "…"
		}
		n++
	}
	return text, ""
}

// List returns the first texts of a list as Text has them, and how many there are if there are more.
func List[T ~string](list []T) string {
	const most = 8
	s := "["
	for i, t := range list[:min(len(list), most)] {
		if i > 0 {
			s += " "
		}
		s += Text(t)
	}
	if len(list) > most {
		s += fmt.Sprintf(" and %d more", len(list)-most)
	}
	return s + "]"
}

// longest is how many bytes of a message are shown. What is wrong stands at its beginning and its end.
const longest = 8 << 10

// Message returns the text of an error as it is shown on a terminal. Whatever parts of it come from outside, control characters other
// than the ends of lines and tabs are escaped, so that they do not reach the terminal, and the middle of a text of more than 8 KiB is
// left out.
func Message(text string) string {
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
