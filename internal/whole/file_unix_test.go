//go:build unix

package whole_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/whole"
)

// Links are followed, also one that leads nowhere yet.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
	require.NoError(t, os.Symlink("d/b", filepath.Join(dir, "a")))
	for _, s := range []string{"new", "again"} {
		require.NoError(t, whole.Write(filepath.Join(dir, "a"), say(s)))
		if got := text(t, filepath.Join(dir, "d", "b")); got != s {
			t.Errorf("%q behind the link, want %q", got, s)
		}
	}
	only(t, dir, "a", "d")
	require.NoError(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	if err := whole.Write(filepath.Join(dir, "loop"), say("x")); err == nil {
		t.Error("a loop of links is written to")
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	f, err := whole.CreateIn(root, "a")
	require.NoError(t, err)
	require.NoError(t, say("x")(f))
	require.NoError(t, f.Close())
	if got := text(t, filepath.Join(dir, "d", "b")); got != "again" {
		t.Errorf("CreateIn has followed a link to %q", got)
	}
}

// Pipes and the process's own files are written directly.
func TestDirect(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	got := make(chan string)
	go func() {
		b, _ := os.ReadFile(path)
		got <- string(b)
	}()
	require.NoError(t, whole.Write(path, say("through")))
	if s := <-got; s != "through" {
		t.Errorf("%q came out of the pipe", s)
	}
	only(t, dir, "pipe")
	require.NoError(t, whole.Write("/dev/null", say("x")))
	f, err := os.Create(filepath.Join(dir, "open"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, say("1")(f))
	require.NoError(t, whole.Write("/dev/fd/"+itoa(f.Fd()), say("2")))
	if s := text(t, f.Name()); s != "12" {
		t.Errorf("%q in an open file, want 12", s)
	}
}

func itoa(n uintptr) string {
	if n > 9 {
		return itoa(n/10) + string(rune('0'+n%10))
	}
	return string(rune('0' + n))
}

// Beyond the limit of a file's size nothing gets a name, and a published file keeps the
// texts that were written as a whole.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	var was syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 20, Max: was.Max}))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was)) }()
	big := strings.Repeat("x", 1<<20+5)
	err := whole.Write(path, func(w io.Writer) error { return say(big)(w) })
	if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), path) || text(t, path) != "old" {
		t.Errorf("error %v, and %d bytes are there", err, len(text(t, path)))
	}
	f, err := whole.Create(path)
	require.NoError(t, err)
	require.NoError(t, say("header\n")(f))
	require.NoError(t, f.Publish())
	if err := say(big)(f); err == nil {
		t.Error("no error of a row that is too long")
	}
	if err := f.Close(); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("Close returns %v", err)
	}
	if s := text(t, path); s != "header\n" {
		t.Errorf("%d bytes are there, want the header alone", len(s))
	}
	only(t, dir, "x")
}

// A file that must not be written is not replaced.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o400))
	err := whole.Write(path, say("y"))
	if os.Getuid() != 0 && (!errors.Is(err, os.ErrPermission) || text(t, path) != "mine") {
		t.Errorf("error %v, and the file holds %q", err, text(t, path))
	}
	only(t, dir, "x")
}
