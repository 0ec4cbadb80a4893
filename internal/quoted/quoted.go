// Package quoted writes text from outside, such as a field of a request or a name in a file, into errors.
package quoted

import (
	"fmt"
	"strconv"
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
