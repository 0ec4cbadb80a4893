package text

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tree writes files below a new directory and returns it.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return dir
}

func load(t *testing.T, opts Options) *Corpus {
	t.Helper()
	c, err := Load(t.Context(), opts)
	require.NoError(t, err)
	return c
}

func whole(c *Corpus) string { return string(c.Train) + string(c.Held) }

func TestLoadDirectory(t *testing.T) {
	dir := tree(t, map[string]string{
		"a.txt":        strings.Repeat("a", 60),
		"sub/b.txt":    strings.Repeat("b", 39),
		"empty.txt":    "",
		"picture.png":  "PNG\x00data",
		".git/config":  "hidden directory",
		".#lock":       "hidden file",
		"sub/deep/c.c": "c",
	})
	c := load(t, Options{Data: dir})
	text := whole(c)
	for b, want := range map[string]int{"a": 60, "b": 39, "c": 1} {
		if got := strings.Count(text, b); got != want {
			t.Errorf("%q occurs %d times, want %d", b, got, want)
		}
	}
	if len(text) != 100 || len(c.Held) != 5 {
		t.Errorf("%d bytes of which %d held out, want 100 and 5", len(text), len(c.Held))
	}
	if c.Files != 3 || c.Found != 5 || c.Binary != 1 || c.Cut {
		t.Errorf("files %d found %d binary %d cut %v, want 3 5 1 false", c.Files, c.Found, c.Binary, c.Cut)
	}
	want := dir + ": 100 B from 3 of 5 files, 1 binary skipped; 95 B to train on, 5 B held out"
	if got := c.String(); got != want {
		t.Errorf("String:\n%s\nwant\n%s", got, want)
	}
	if again := load(t, Options{Data: dir, Seed: 9}); whole(again) != text {
		t.Error("the seed or the time changed the text")
	}
}

func TestLoadIsTheSameElsewhere(t *testing.T) {
	files := make(map[string]string)
	for i := range 40 {
		files[fmt.Sprintf("d%d/f%d.txt", i%4, i)] = strings.Repeat(string(rune('A'+i)), 100)
	}
	opts := Options{Data: tree(t, files), Limit: 1050}
	first := load(t, opts)
	opts.Data = tree(t, files)
	if second := load(t, opts); whole(first) != whole(second) {
		t.Error("two copies of one tree give different text")
	}
	if n := len(whole(first)); n != 1050 || first.Files != 11 || !first.Cut {
		t.Errorf("%d bytes of %d files, cut %v; want 1050 of 11, true", n, first.Files, first.Cut)
	}
	// A sample of 11 files in the order of their paths would lie in d0 and d1.
	seen := make(map[int]bool)
	for _, b := range whole(first) {
		seen[int(b-'A')%4] = true
	}
	if len(seen) != 4 {
		t.Errorf("the sample has files of %d of 4 directories", len(seen))
	}
}

func TestLoadLimits(t *testing.T) {
	dir := tree(t, map[string]string{"x": strings.Repeat("x", 1000)})
	for _, test := range []struct {
		limit int64
		want  int
		cut   bool
	}{{0, 1000, false}, {-1, 1000, false}, {1000, 1000, false}, {999, 999, true}, {1, 1, true}} {
		c := load(t, Options{Data: dir, Limit: test.limit})
		if n := len(whole(c)); n != test.want || c.Cut != test.cut {
			t.Errorf("limit %d: %d bytes, cut %v; want %d, %v", test.limit, n, c.Cut, test.want, test.cut)
		}
	}
}

func TestLoadNamesTwice(t *testing.T) {
	dir := tree(t, map[string]string{"a": "aa", "b": "bbb"})
	c := load(t, Options{Data: dir + ", " + filepath.Join(dir, "a") + ","})
	if n := len(whole(c)); n != 5 || c.Found != 2 {
		t.Errorf("%d bytes of %d files, want 5 of 2: a file named twice counts once", n, c.Found)
	}
}

func TestLoadFollowsLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege on Windows")
	}
	dir := tree(t, map[string]string{"real/a": "aa", "blob": "bbb"})
	require.NoError(t, os.Symlink(filepath.Join(dir, "blob"), filepath.Join(dir, "real", "b")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "real", "dangling")))
	require.NoError(t, os.Symlink(dir, filepath.Join(dir, "real", "loop")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "real"), filepath.Join(dir, "link")))
	c := load(t, Options{Data: filepath.Join(dir, "link")})
	if n := len(whole(c)); n != 5 || c.Found != 2 {
		t.Errorf("%d bytes of %d files, want 5 of 2", n, c.Found)
	}
}

func TestLoadErrors(t *testing.T) {
	dir := tree(t, map[string]string{"empty": "", "bin": "a\x00b", "sub/.keep": "x"})
	for _, test := range []struct{ name, data, want string }{
		{"missing", filepath.Join(dir, "no"), "want files or directories"},
		{"no name", " , ", "names no file"},
		{"empty file", filepath.Join(dir, "empty"), "no text in 1 files, of which 0 are binary"},
		{"binary file", filepath.Join(dir, "bin"), "no text in 1 files, of which 1 are binary"},
		{"empty directory", filepath.Join(dir, "sub"), "no text in 0 files"},
		{"device", os.DevNull, "neither a file nor a directory"},
	} {
		_, err := Load(t.Context(), Options{Data: test.data})
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "-data") {
			t.Errorf("%s: error %v, want one with %q and -data", test.name, err, test.want)
		}
	}
	why := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	for _, data := range []string{"", dir} {
		if _, err := Load(ctx, Options{Data: data}); !errors.Is(err, why) {
			t.Errorf("-data %q cancelled: error %v, want the cause", data, err)
		}
	}
}

// TestLoadGo reads from an installation made for the test: a go command that
// prints its place.
func TestLoadGo(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the stand-in for the go command is a shell script")
	}
	root := tree(t, map[string]string{
		"src/fmt/print.go":           "package fmt\n",
		"src/fmt/print_test.go":      "package fmt\n",
		"src/fmt/testdata/x.go":      "testdata",
		"src/vendor/golang.org/x.go": "vendor",
		"src/cmd/go/main.go":         "command",
		"src/internal/cmd/x.go":      "package x\n",
		"src/fmt/README":             "readme",
	})
	bin := tree(t, map[string]string{"go": "#!/bin/sh\n[ \"$*\" = 'env GOROOT' ] && [ $GOTOOLCHAIN = local ] && echo '" + root + "'\n"})
	require.NoError(t, os.Chmod(filepath.Join(bin, "go"), 0o755))
	check := func(how string) {
		t.Helper()
		c := load(t, Options{})
		if text := whole(c); c.Found != 3 || strings.Count(text, "package") != 3 || len(text) != 34 {
			t.Errorf("%s: %d files, text %q; want the three library files", how, c.Found, text)
		}
		if want := "Go standard library (" + filepath.Join(root, "src") + ")"; c.Source != want {
			t.Errorf("%s: source %q, want %q", how, c.Source, want)
		}
	}
	t.Setenv("PATH", bin)
	t.Setenv("GOROOT", "/nowhere")
	check("go command")

	t.Setenv("PATH", t.TempDir())
	t.Setenv("GOROOT", root)
	check("GOROOT")

	wantError := func(how, want string) {
		t.Helper()
		_, err := Load(t.Context(), Options{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "-data") {
			t.Errorf("%s: error %v, want one with %q and -data", how, err, want)
		}
	}
	t.Setenv("GOROOT", "")
	wantError("nothing", "no go command on PATH and GOROOT is not set")
	t.Setenv("GOROOT", t.TempDir())
	wantError("no sources", "is not a directory")
	t.Setenv("GOROOT", tree(t, map[string]string{"src/README": "x"}))
	wantError("no go files", "no .go files")
	require.NoError(t, os.WriteFile(filepath.Join(bin, "go"), []byte("#!/bin/sh\necho broken >&2; exit 3\n"), 0o755))
	t.Setenv("PATH", bin)
	wantError("broken go command", "broken")
}

// TestLoadThisGo reads the installation that runs this test.
func TestLoadThisGo(t *testing.T) {
	c := load(t, Options{Limit: 1 << 20})
	if n := len(whole(c)); n != 1<<20 {
		t.Errorf("%d bytes, want the limit", n)
	}
	if !bytes.Contains(c.Train, []byte("\nfunc ")) || !bytes.Contains(c.Held, []byte("\nfunc ")) {
		t.Error("this is not Go source")
	}
	nats, bits := c.UnigramEntropy()
	if nats < 2.5 || nats > 4 || bits < 3.6 || bits > 5.8 {
		t.Errorf("unigram entropy %.3f nats, %.3f bits; source text has about 3.7 and 5.4", nats, bits)
	}
	t.Log(c, nats, bits)
}
