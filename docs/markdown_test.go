package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// document is a file of Markdown, cut into fences and the text around them.
type document struct {
	path   string // from the repository's root
	src    string
	fences []fence
	text   []line // outside of fences
}

type line struct {
	number int
	text   string
}

type fence struct {
	line  int // where it begins
	end   int // where it ends
	lang  string
	above string // the last line of the paragraph above
	lines []string
}

// parse cuts a document. A fence that does not end, or code that is in no fence, is an
// error.
func parse(path, src string) (*document, error) {
	d := &document{path: path, src: src}
	var open *fence
	above := ""
	for i, s := range strings.Split(src, "\n") {
		lang, mark := strings.CutPrefix(s, "```")
		switch {
		case open != nil && s == "```":
			open.end = i + 1
			d.fences = append(d.fences, *open)
			open, above = nil, ""
		case open != nil:
			open.lines = append(open.lines, s)
		case mark:
			open = &fence{line: i + 1, lang: lang, above: above}
		case strings.HasPrefix(s, "    ") || strings.HasPrefix(s, "\t"):
			return nil, fmt.Errorf("%s:%d: indented code; put it into a fence", path, i+1)
		case s != "":
			above = s
			d.text = append(d.text, line{i + 1, s})
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s:%d: the fence has no end", path, open.line)
	}
	return d, nil
}

// documents returns the repository's documents, without the generated reference.
func documents(t *testing.T) []*document {
	paths, err := filepath.Glob("*.md")
	require.NoError(t, err)
	var out []*document
	for _, p := range append([]string{"../README.md", "../RATIONALE.md", "../bench/RESULTS.md"}, paths...) {
		if p == "reference.md" {
			continue
		}
		src, err := os.ReadFile(p)
		require.NoError(t, err)
		d, err := parse(filepath.ToSlash(filepath.Join("docs", p)), string(src))
		require.NoError(t, err)
		out = append(out, d)
	}
	require.Greater(t, len(out), 1, "documents")
	return out
}

// write writes the document with its fences as they are now.
func (d *document) write(root string) error {
	lines := strings.Split(d.src, "\n")
	for _, f := range slices.Backward(d.fences) {
		lines = slices.Replace(lines, f.line, f.end-1, f.lines...)
	}
	out := strings.Join(lines, "\n")
	if out == d.src {
		return nil
	}
	return os.WriteFile(filepath.Join(root, filepath.FromSlash(d.path)), []byte(out), 0o666)
}

// file returns the name in the text above a fence: `main.go`:
func (f fence) file() string {
	m := regexp.MustCompile("`([^`]+)`:$").FindStringSubmatch(f.above)
	if m == nil {
		return ""
	}
	return m[1]
}

// matches reports whether got has the lines of want, in which … stands for any text of a
// line and, alone, for any lines.
func matches(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if strings.TrimSpace(want[0]) == "…" {
		for i := range len(got) + 1 {
			if matches(want[1:], got[i:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && matchesLine(want[0], got[0]) && matches(want[1:], got[1:])
}

func matchesLine(want, got string) bool {
	parts := strings.Split(strings.TrimRight(want, " \t"), "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(strings.TrimRight(got, " \t"))
}

// The rules of this package find what they are for.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		want, got string
		ok        bool
	}{
		{"a\nb", "a\nb", true},
		{"a\nb", "a\nc", false},
		{"a", "a\nb", false},
		{"a\n…", "a\nb\nc", true},
		{"a\n…", "a", true},
		{"…\nc", "a\nb\nc", true},
		{"…\nc", "a\nb", false},
		{"a … c", "a b c", true},
		{"a … c", "a b d", false},
		{"a.c", "abc", false},
	} {
		if got := matches(strings.Split(c.want, "\n"), strings.Split(c.got, "\n")); got != c.ok {
			t.Errorf("matches(%q, %q) = %v", c.want, c.got, got)
		}
	}
	for src, want := range map[string]string{
		"```sh\nls":      "a.md:1: the fence has no end",
		"text\n\n    ls": "a.md:3: indented code",
	} {
		_, err := parse("a.md", src)
		require.ErrorContains(t, err, want)
	}
	d, err := parse("a.md", "Write\nthis to `x.go`:\n\n```go\npackage x\n```\n\nSo.")
	require.NoError(t, err)
	require.Equal(t, fence{4, 6, "go", "this to `x.go`:", []string{"package x"}}, d.fences[0])
	require.Equal(t, "x.go", d.fences[0].file())
}
