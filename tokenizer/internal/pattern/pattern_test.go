package pattern

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gomoe/gomoe/internal/quoted"
)

func find(t *testing.T, p *Pattern, text string) []string {
	out := []string{}
	if err := p.Each(text, func(start, end int) error {
		out = append(out, text[start:end])
		return nil
	}); err != nil {
		t.Fatalf("%s on %q: %v", p, text, err)
	}
	return out
}

// Matches are those of Oniguruma; the published patterns are in the tests of package tokenizer.
func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          []string
	}{
		{`a|ab`, "abab", []string{"a", "a"}},
		{`(?:a|ab)c`, "abc ac", []string{"abc", "ac"}},
		{`a*`, "baac", []string{"", "aa", ""}},
		{`a+?b`, "aaab", []string{"aaab"}},
		{`a{2,3}?`, "aaaaa", []string{"aa", "aa"}},
		{`a{2,3}`, "aaaaa", []string{"aaa", "aa"}},
		{`a{,2}b`, "aaab", []string{"aab"}},
		{`a{x}`, "a{x}", []string{"a{x}"}},
		{`a++a|b`, "aaab", []string{"b"}},
		{`(?>a|ab)c|d`, "abcd", []string{"d"}},
		{`(?:ab)*+a|x`, "ababax", []string{"ababa", "x"}},
		{`(?:ab){2,3}?c`, "ababababc", []string{"abababc"}},
		{`(?:ab)+?c`, "ababc", []string{"ababc"}},
		{`\s+(?!\S)|\s+`, "a   b ", []string{"  ", " ", " "}},
		{`(?<=a)b`, "ab bb", []string{"b"}},
		{`(?<!a|b)c`, "ac bc c", []string{"c"}},
		{`(?i:'S)|k`, "'s 'ſ k K", []string{"'s", "'ſ", "k"}},
		{`(?i)straße`, "STRAßE", []string{"STRAßE"}},
		{`[^(\s|[.,])]+`, "a(b|c.d e", []string{"a", "b", "c", "d", "e"}},
		{`[a-z&&[^aeiou]]+`, "hello", []string{"h", "ll"}},
		{`[a\-z]+`, "a-z", []string{"a-z"}},
		{`[]a]+`, "]a", []string{"]a"}},
		{`[\]\\]+`, `\]`, []string{`\]`}},
		{`[[:alpha:]\d]+`, "aé1-", []string{"aé1"}},
		{`[^[:^alpha:]]+`, "a1b", []string{"a", "b"}},
		{`\p{Han}+|\p{^L}|\pN`, "漢字a1", []string{"漢字", "1"}},
		{`\P{L}+`, "a12b", []string{"12"}},
		{`\x41\x{1F600}\u00e9`, "A😀é", []string{"A😀é"}},
		{`^a|b$`, "ab\nab", []string{"a", "b", "a", "b"}},
		{`\Aa|b\z`, "ab\nab", []string{"a", "b"}},
		{`b\Z`, "b\nb\n", []string{"b"}},
		{`\bé\w*|\Bx`, "éa xx", []string{"éa", "x"}},
		{`.`, "a\né", []string{"a", "é"}},
		{`(?m:.)`, "a\n", []string{"a", "\n"}},
		{`(?<n>a)(?#no)b`, "ab", []string{"ab"}},
		{`\h+`, "beefx", []string{"beef"}},
		{``, "ab", []string{"", "", ""}},
		{"[一-龥]+", "漢字かな", []string{"漢字"}},
	} {
		p, err := Compile(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		if got := find(t, p, c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s on %q: %q, want %q", c.pattern, c.text, got, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ pattern, want string }{
		{`(a`, "byte 2: a group is not closed"},
		{`a)`, "byte 1: a closing parenthesis without a group"},
		{`*a`, "nothing before '*' to repeat"},
		{`(?#x)*`, "nothing before '*' to repeat"},
		{`[a`, "a class is not closed"},
		{`[z-a]`, "a range of characters whose end is before its start"},
		{`[[:no:]]`, `an unknown property "no"`},
		{`\p{No Such}`, `an unknown property "No Such"`},
		{`\p{L`, "is not closed"},
		{`\q`, `an unknown escape \q`},
		{`\1`, `an unknown escape \1`},
		{`\`, "a backslash at the end"},
		{`\xzz`, "no hexadecimal digits"},
		{`\x{110000}`, "no hexadecimal digits"},
		{`(?z)`, "an unknown kind of group"},
		{`a{2000}`, "a repetition of more than 1000"},
		{`a{3,2}`, "a repetition from 3 to 2"},
		{`(?:(?:a?b?){900}){900}`, "instructions"},
		{`(?:a*)*`, "repeats without limit what can match nothing"},
		{`(?<=a+)b`, "looks behind at matches of several lengths"},
		{strings.Repeat("(", 60), "groups nest deeper than 50"},
		{strings.Repeat("[", 60), "classes nest deeper than 50"},
		{strings.Repeat("a", maxBytes+1), "16385 bytes, want at most 16384"},
		{"\xff", "invalid UTF-8"},
	} {
		_, err := Compile(c.pattern)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", quoted.Text(c.pattern), err, c.want)
		}
	}
}

// A pattern that would take exponential time ends with an error.
func TestBudget(t *testing.T) {
	p, err := Compile(`(?:a+a+)+b`)
	if err != nil {
		t.Fatal(err)
	}
	err = p.Each(strings.Repeat("a", 5000), func(int, int) error { return nil })
	if !errors.Is(err, ErrBudget) {
		t.Errorf("error %v, want %v", err, ErrBudget)
	}
}

// Patterns that Go's package knows too match what it finds.
func FuzzPattern(f *testing.F) {
	f.Add(`(?:a|ab)+?c*[^b-d]|\s+`, "abac aaabd")
	f.Add(`\p{L}{1,3}|\d+`, "Größe 123 漢字")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		p, err := Compile(pattern)
		if err != nil || len(text) > 200 {
			return
		}
		var got []string
		if p.Each(text, func(start, end int) error {
			got = append(got, text[start:end])
			return nil
		}) != nil {
			return
		}
		// What the two syntaxes mean by these differs.
		if strings.ContainsAny(pattern, `\^$.&[?+*{`) || !utf8.ValidString(text) {
			return
		}
		r, err := regexp.Compile(pattern)
		if err != nil {
			return
		}
		if want := r.FindAllString(text, -1); !slices.Equal(got, want) {
			t.Errorf("%s on %q: %q, want %q", pattern, text, got, want)
		}
	})
}
