package jinja

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// upper implements Python's str.upper, following all of Unicode's rules, such as ß to SS.
func upper(s string) string { return cases.Upper(language.Und).String(s) }

// lower implements Python's str.lower, including the rule for a sigma at the end of a word.
func lower(s string) string { return cases.Lower(language.Und).String(s) }

// titled returns a character in title case.
func titled(c rune) string { return cases.Title(language.Und, cases.NoLower).String(string(c)) }

// cased reports whether a character has an upper and a lower case.
func cased(c rune) bool {
	return unicode.In(c, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

func isUpper(c rune) bool { return unicode.In(c, unicode.Lu, unicode.Other_Uppercase) }
func isLower(c rune) bool { return unicode.In(c, unicode.Ll, unicode.Other_Lowercase) }

// capitalize converts the first letter to title case and the rest to lower case.
func capitalize(s string) string {
	for i, c := range s {
		return titled(c) + lower(s[i+len(string(c)):])
	}
	return ""
}

// title capitalizes every word, as Python's str.title does. A word ends at any character without case.
func title(s string) string {
	var out strings.Builder
	before := false
	word := 0
	flush := func(to int) {
		if word < to {
			part := lower("x" + s[word:to]) // not at the beginning of a word
			out.WriteString(part[1:])
		}
	}
	for i, c := range s {
		switch {
		case !cased(c):
			flush(i)
			out.WriteRune(c)
			word = i + len(string(c))
		case !before:
			flush(i)
			out.WriteString(titled(c))
			word = i + len(string(c))
		}
		before = cased(c)
	}
	flush(len(s))
	return out.String()
}

// titleFilter implements Jinja's filter title: words begin after white space and some punctuation.
func titleFilter(s string) string {
	var out strings.Builder
	word := 0
	flush := func(to int) {
		w := s[word:to]
		for i, c := range w {
			n := i + len(string(c))
			out.WriteString(upper(w[:n]))
			out.WriteString(lower(w[n:]))
			break
		}
	}
	for i, c := range s {
		if space(c) || strings.ContainsRune("-({[<", c) {
			flush(i)
			out.WriteRune(c)
			word = i + len(string(c))
		}
	}
	flush(len(s))
	return out.String()
}

// swapcase swaps upper and lower case.
func swapcase(s string) string {
	var out strings.Builder
	for _, c := range s {
		switch {
		case isUpper(c):
			out.WriteString(lower(string(c)))
		case isLower(c):
			out.WriteString(upper(string(c)))
		default:
			out.WriteRune(c)
		}
	}
	return out.String()
}

// space reports whether Python's isspace and strip treat a character as white space.
func space(c rune) bool { return unicode.IsSpace(c) || c >= 0x1c && c <= 0x1f }

// every reports whether a text is not empty and all its characters satisfy is.
func every(s string, is func(rune) bool) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return !is(c) })
}

// oneCase reports whether a text has cased characters, and all of them satisfy is.
func oneCase(s string, is func(rune) bool) bool {
	return strings.ContainsFunc(s, cased) && !strings.ContainsFunc(s, func(c rune) bool { return cased(c) && !is(c) })
}

// isTitle implements Python's istitle.
func isTitle(s string) bool {
	before, any := false, false
	for _, c := range s {
		switch {
		case isUpper(c) || unicode.Is(unicode.Lt, c):
			if before {
				return false
			}
			before, any = true, true
		case isLower(c):
			if !before {
				return false
			}
		default:
			before = false
		}
	}
	return any
}
