package pattern

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode"
)

// Classes match the characters that they match in Oniguruma, as far as both have them in their tables of Unicode.
func TestClasses(t *testing.T) {
	f, err := os.Open("testdata/classes.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Classes map[string][][2]rune }
	if err := json.NewDecoder(z).Decode(&file); err != nil {
		t.Fatal(err)
	}
	set := func(ranges [][2]rune) (s spans) {
		for _, r := range ranges {
			s = append(s, span{r[0], r[1]})
		}
		return s
	}
	// Marks that are alphabetic since Unicode 16.
	skip := tables(unicode.Cn, unicode.Cs).union(set(file.Classes[`\p{Unassigned}`])).union(spans{{'\n', '\n'}, {0x363, 0x36f}, {0x1dd3, 0x1de6}})
	delete(file.Classes, "Punctuation")
	if len(file.Classes) != 58 {
		t.Fatalf("%d classes", len(file.Classes))
	}
	var text strings.Builder
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r != '\n' && !unicode.Is(unicode.Cs, r) {
			text.WriteRune(r)
			text.WriteByte('\n') // for \b
		}
	}
	for name, ranges := range file.Classes {
		p, err := Compile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		var got spans
		add := func(r rune) {
			if n := len(got); n > 0 && got[n-1].hi == r-1 {
				got[n-1].hi = r
			} else if r != '\n' {
				got = append(got, span{r, r})
			}
		}
		if p.code[0].op == opSet {
			for r := rune(0); r <= unicode.MaxRune; r++ {
				if p.code[0].set.has(r) {
					add(r)
				}
			}
		} else if err := p.Each(text.String(), func(start, end int) error {
			add([]rune(text.String()[start:end])[0])
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		want := set(ranges).union(skip)
		got = got.union(skip)
		missing, extra := want.intersection(got.negated()), got.intersection(want.negated())
		if len(missing)+len(extra) > 0 {
			t.Errorf("%s: missing %x, has %x in addition", name, missing, extra)
		}
	}
}

// Spellings of a pattern are the same, other patterns are not.
func TestSame(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"[^\r\n\\p{L}]+|\\s", `[^\r\n\p{L}]+|\s`, true},
		{`[\r\n]`, `[\x0a\x0D]`, true},
		{`[\r\n]`, `[\u000A\u000D]`, true},
		{`[\r\n]`, `[\n\r]`, true},
		{`\p{L}`, `\p{Letter}`, true},
		{`(?i:'s|'t)|a`, `(?:(?i:'s)|(?i:'t))|(?:a)`, true},
		{`\n`, `(?#x)[\x{A}]`, true},
		{`[0-9]+`, `[0123456789]+`, true},
		{`[\r\n]`, `[\rn]`, false},
		{`a|ab`, `ab|a`, false},
		{`a+`, `a+?`, false},
		{`a+`, `a++`, false},
		{`a`, `(?i)a`, false},
		{`(?=a)`, `(?!a)`, false},
		{`(`, `(?:`, false},
		{`\b`, `\B`, false},
		{`\p{N}{1,3}`, `\p{N}`, false},
	} {
		if got := Same(c.a, c.b); got != c.same {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
	}
}
