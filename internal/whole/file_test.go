package whole_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/whole"
)

// text returns the file's text, "" if there is no file.
func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	return string(b)
}

// only reports files of a folder other than those wanted.
func only(t *testing.T, dir string, want ...string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	if fmt.Sprint(names) != fmt.Sprint(want) {
		t.Errorf("the folder holds %v, want %v", names, want)
	}
}

func say(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	require.NoError(t, whole.Write(path, say("one")))
	info, err := os.Stat(path)
	require.NoError(t, err)
	if text(t, path) != "one" || runtime.GOOS != "windows" && info.Mode().Perm()&0o700 != 0o600 {
		t.Errorf("%q, mode %v", text(t, path), info.Mode())
	}
	require.NoError(t, os.Chmod(path, 0o640))
	wrong := errors.New("wrong")
	err = whole.Write(path, func(w io.Writer) error { io.WriteString(w, "half"); return wrong })
	if err != wrong || text(t, path) != "one" {
		t.Errorf("error %v and %q, want the old text after an error", err, text(t, path))
	}
	require.NoError(t, whole.Write(path, say("two")))
	if info, err = os.Stat(path); err != nil || text(t, path) != "two" || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Errorf("%q, mode %v, %v: want the new text and the old mode", text(t, path), info.Mode(), err)
	}
	only(t, dir, "x")
}

// The name has what it had until the file is published; then all that is written.
func TestPublish(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	f, err := whole.Create(path)
	require.NoError(t, err)
	defer f.Discard()
	require.NoError(t, say("a")(f))
	if text(t, path) != "old" {
		t.Errorf("%q before it is published", text(t, path))
	}
	require.NoError(t, f.Publish())
	require.NoError(t, say("b")(f))
	if text(t, path) != "ab" {
		t.Errorf("%q after it is published, want ab", text(t, path))
	}
	f.Discard()
	if text(t, path) != "ab" {
		t.Errorf("%q: what was published is gone", text(t, path))
	}
	only(t, dir, "x")
}

// A file that is not closed leaves nothing behind.
func TestDiscard(t *testing.T) {
	dir := t.TempDir()
	f, err := whole.Create(filepath.Join(dir, "x"))
	require.NoError(t, err)
	require.NoError(t, say("a")(f))
	f.Discard()
	f.Discard()
	only(t, dir)
}

// Mistakes are found before anything is written, and name the path that was given.
func TestWrong(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		dir:                                "folder",
		filepath.Join(dir, "no", "such"):   "no",
		filepath.Join(dir, "file", "such"): "file",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
		_, err := whole.Create(path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	only(t, dir, "file")
}
